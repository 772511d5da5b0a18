"""What do we buy each quarter?"""
