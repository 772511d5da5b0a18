"""Procurement: what to buy in each quarter, and why."""

from capplan.questions.procurement.answer import Proof, Purchases
from capplan.questions.procurement.decide import OF_PROOF, Decided, Stated, decide, state_problem
from capplan.questions.procurement.explain.checked_plan import CheckedPlan, check_plan
from capplan.questions.procurement.first_answer import FIRST_GAP, FirstAnswer, first_answer, kept_answer
from capplan.questions.procurement.hindsight.fresh_paths import OutOfSample, judge_on_fresh_paths
from capplan.questions.procurement.hindsight.frontier import Frontier, trace_frontier
from capplan.questions.procurement.hindsight.kept_decision import Kept, Signed, keep_decision, regret_of, signed_now, tell_kept
from capplan.questions.procurement.hindsight.knowing import demand_that_came, worth_of_knowing
from capplan.questions.procurement.hindsight.rehearsal import Rolling, rehearse_plan
from capplan.questions.procurement.plan_purchases import plan_purchases
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.work.sampling import sample_paths
