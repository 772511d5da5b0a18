"""Portfolio: how much reserved, spot and on demand."""

from capplan.questions.portfolio.mix_portfolio import mix_portfolio
from capplan.questions.portfolio.pools import PoolTables, holdings_of
from capplan.questions.portfolio.portfolio_answer import Portfolio, Rehearsal
from capplan.questions.portfolio.recommend import recommend_now
from capplan.questions.portfolio.stack import Stack
