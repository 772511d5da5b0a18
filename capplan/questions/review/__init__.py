"""Review: the accepted plan against what was billed and used since."""

from capplan.questions.review.plans_apart import plans_apart, told
from capplan.questions.review.review_plan import Came, Review, review_plan
from capplan.questions.review.spend_rows import spend_of_focus
from capplan.questions.review.what_came import deliveries_that_came
