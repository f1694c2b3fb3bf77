"""Other people's definitions, computed from our sessions: a module each, none of it their code.

Each module names its source (paper, repository, commit, file), writes the rule, and says where and
why ours differs. `catalogue` joins them.
"""
