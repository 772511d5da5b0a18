"""What can be had: offers, contracts, machines owned, sites, and how they are paid and delivered."""
