"""What annotators are told: in our own words, the same for every role, system and level.

The meaning of actions, criteria and categories is that of DSB-IFEval, table 13, A.2 to A.4 and
appendix D; of the verifiers' limits only the number that a case is held to is given.
"""

from __future__ import annotations

from collections.abc import Mapping

from audio.timebase import ns_to_s
from rig.validation.studies import Study
from verifiers.scene import Action
from verifiers.thresholds import Limits

TITLES: Mapping[Study, str] = {
    "h1": "What should it do?", "h2": "Did it do it?", "h3": "Do its words fit?",
    "audit": "Does the text give the sound?"}

DEFINITIONS: tuple[tuple[Action, str], ...] = (
    (Action.LISTEN, "Say nothing and leave the floor to the user, also in a pause."),
    (Action.BACKCHANNEL, "One short listening sound (\"mm-hm\", \"yes\"), after which the user "
     "goes on speaking."),
    (Action.NO_BACKCHANNEL, "Say nothing at all, not even a listening sound, where one would be "
     "thinkable."),
    (Action.INTERRUPT, "Begin to speak while the user is still speaking, soon after the marked "
     "point, and take the floor."),
    (Action.TAKE_TURN, "Begin to speak soon, as the next speaker: the user has stopped or paused."),
    (Action.READBACK, "Say the user's items back, completely and in order."),
    (Action.YIELD, "Stop speaking soon, because the user has begun to speak."),
    (Action.CONTINUE, "Go on speaking although the user has begun to speak."),
    (Action.ACCEPT_OVERLAP, "Speak at the same time as the user for a while, as part of the play "
     "between the two."),
)

INSTRUCTIONS: Mapping[Study, tuple[str, ...]] = {
    "h1": (
        "Each item shows a persona, what a user says to an assistant with this persona, and one "
        "marked point with the stretch that follows it. Nobody's answer is shown: say what such an "
        "assistant should do there.",
        "Choose one action. Give the time from the marked point in which it would fit: earliest "
        "and latest, in seconds, below zero for before. Listen and No backchannel need no time.",
        "There is no right answer that you should find out. Judge by the persona and the "
        "conversation alone, each item for itself."),
    "h2": (
        "Each item is a recording: the user on the left, the agent on the right. Use headphones.",
        "A criterion stands above each recording. Say whether the agent met it in the marked "
        "window. The recording begins before the window and goes on behind it.",
        "Judge what you hear, not what you would have wished. Voices, accents and the quality of "
        "the sound do not count."),
    "h3": (
        "Each item shows a role (persona and rule), what the user said, and all that was heard of "
        "the assistant in words. Pauses of the user are given in seconds.",
        "Judge the words alone: when they were said, how long it took and who spoke over whom is "
        "measured elsewhere. Where nothing was said, judge what the role needed to hear.",
        "In some items the assistant was also given a directive that contradicts the persona. "
        "There, say as well which of the two its words followed."),
    "audit": (
        "Each item is all that the agent said in one session, and the text that is taken for it. "
        "Use headphones.",
        "Faithful: the same words; spelling, punctuation and numbers in words or digits do not "
        "count. Minor: words differ, are missing or too many, and the meaning is the same. Major: "
        "the meaning differs, or an item, number or name is wrong or missing.",
        "Long silences are part of the recording: skip them in the player."),
}

FUNCTIONS: Mapping[Action, str] = {
    Action.BACKCHANNEL: "a sign of listening that leaves the floor to the user",
    Action.INTERRUPT: "stepping in: a question, a warning or a remark that takes the floor",
    Action.READBACK: "the user's items said back, right and in order",
    Action.TAKE_TURN: "a turn of its own: more than a listening sound",
}


def criterion(action: Action, limits: Limits) -> str:
    """What the agent should have done, with the limit of the case."""
    wait_s, latency_s = ns_to_s(limits.max_wait_ns), ns_to_s(limits.max_latency_ns)
    return {
        Action.LISTEN: "The agent says nothing in the window.",
        Action.NO_BACKCHANNEL: "The agent says nothing in the window, not even a listening sound.",
        Action.BACKCHANNEL: f"The agent makes one listening sound in the window, shorter than "
                            f"{ns_to_s(limits.ceiling_ns):g} s, and no more.",
        Action.TAKE_TURN: f"The agent begins to speak within {wait_s:g} s of the start of the "
                          "window. Speech that was already going on does not count as a "
                          "beginning.",
        Action.INTERRUPT: f"The agent begins to speak within {latency_s:g} s of the start of the "
                          "window, while the user speaks.",
        Action.READBACK: "The agent says the items below back, all of them and in order, in or "
                         "after the window.",
        Action.YIELD: f"The agent, speaking when the window begins, stops within {latency_s:g} s.",
        Action.CONTINUE: f"The agent, speaking when the window begins, goes on for more than "
                         f"{latency_s:g} s instead of giving way.",
        Action.ACCEPT_OVERLAP: "Agent and user speak at the same time in the window, and the agent "
                               "keeps it up rather than giving way at once.",
    }[action]
