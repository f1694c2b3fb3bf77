"""From answers to figures, a study each (DSB-IFEval, A.1 to A.4).

Every figure is over items, never over an item's single answers as if they were independent; an item
that lacks what a figure needs (a majority, an answer of every annotator) is left out of it and
counted.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rig.validation import figures
from rig.validation.answers import Answer, Returned
from rig.validation.figures import Bootstrap, Estimate
from rig.validation.key import Key, KeyItem
from rig.validation.studies import FIDELITY, LABELS
from verifiers.scene import Action

Rated = Mapping[str, Sequence[Answer]]
"""Complete answers by item."""
ACTIONS = tuple(str(a) for a in Action)


def agree(key: Key, returned: Sequence[Returned], boot: Bootstrap) -> dict[str, Any]:
    """The document of `rig agree`: who answered how much, and the figures, each an `Estimate`."""
    rated: dict[str, list[Answer]] = {item.item_id: [] for item in key.items}
    for one in returned:
        for answer in one.answers:
            rated[answer.item_id].append(answer)
    make: Mapping[str, Callable[[Key, Rated, int, Bootstrap], dict[str, Any]]] = {
        "h1": h1, "h2": h2, "h3": h3, "audit": audit}
    out = [asdict(r) | {"complete": len(r.answers)} for r in returned]
    for entry in out:
        del entry["answers"]
    absent = [p.annotator for p in key.pages if p.annotator not in {r.annotator for r in returned}]
    return {
        "study": key.study, "items": len(key.items), "annotators": out, "not_given_back": absent,
        "complete": not absent and all(not r.partial and not r.unanswered for r in returned),
        "notes": list(key.notes), "figures": make[key.study](key, rated, len(returned), boot)}


def plain(value: Any) -> Any:
    """The document for JSON."""
    if isinstance(value, Estimate):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def majority(values: Sequence[str]) -> str | None:
    """What more than half of them say."""
    found, times = Counter(values).most_common(1)[0] if values else ("", 0)
    return found if 2 * times > len(values) else None


def _counts(items: Sequence[KeyItem], rated: Rated, raters: int, field: str,
            labels: Sequence[str]) -> list[list[int]]:
    """Counts by label of the items that every annotator answered: what Fleiss' kappa takes."""
    out = []
    for item in items:
        given = [a.values[field] for a in rated[item.item_id] if field in a.values]
        if len(given) == raters:
            out.append([given.count(label) for label in labels])
    return out


def _by(items: Sequence[KeyItem], of: Callable[[KeyItem], str | None],
        ) -> dict[str, list[KeyItem]]:
    out: dict[str, list[KeyItem]] = {}
    for item in items:
        if (name := of(item)) is not None:
            out.setdefault(name, []).append(item)
    return dict(sorted(out.items()))


# --- H1 ---------------------------------------------------------------------------------------


def h1(key: Key, rated: Rated, raters: int, boot: Bootstrap) -> dict[str, Any]:
    """Target agreement (share of answers that name the benchmark's action), Fleiss' kappa over the
    nine, by role and by target; of one category Fleiss' kappa of that answer."""
    def target(items: Sequence[KeyItem], only: Callable[[Answer], bool] = lambda _: True,
               ) -> Estimate:
        parts = []
        for item in items:
            given = [a for a in rated[item.item_id] if only(a)]
            parts.append((sum(a.values["action"] == item.action for a in given), len(given)))
        return figures.pooled_share(parts, boot)

    by_role, by_action = _by(key.items, lambda i: i.role), _by(key.items, lambda i: i.action)
    counts = _counts(key.items, rated, raters, "action", ACTIONS)
    return {
        "target_agreement": {
            "all": target(key.items),
            "by_role": {role: target(items) for role, items in by_role.items()},
            "by_action": {action: target(items) for action, items in by_action.items()},
            "by_confidence": {c: target(key.items, lambda a, c=c: a.values["confidence"] == c)  # type: ignore[misc]
                              for c in "123"}},
        "fleiss_kappa": {
            "all": figures.fleiss_kappa(counts, boot),
            "by_role": {role: figures.fleiss_kappa(_counts(items, rated, raters, "action",
                                                           ACTIONS), boot)
                        for role, items in by_role.items()},
            "by_category": {action: figures.fleiss_category(counts, k)
                            for k, action in enumerate(ACTIONS)}},
        "answered_by_all": len(counts),
        "chosen": {action: dict(Counter(
            a.values["action"] for item in items for a in rated[item.item_id]))
            for action, items in by_action.items()},
        "timing": {action: _timing([a for item in items for a in rated[item.item_id]
                                    if a.values["action"] == action])
                   for action, items in by_action.items()}}


def _timing(answers: Sequence[Answer]) -> dict[str, Any]:
    """Median range of those who chose the target; tells of thresholds, and sets none (A.1)."""
    timed = [a.values for a in answers if "earliest_s" in a.values and "latest_s" in a.values]
    return {"n": len(timed),
            "earliest_s": statistics.median(v["earliest_s"] for v in timed) if timed else None,
            "latest_s": statistics.median(v["latest_s"] for v in timed) if timed else None,
            "reason": None if timed else "nobody gave a time"}


# --- H2 ---------------------------------------------------------------------------------------


def h2(key: Key, rated: Rated, raters: int, boot: Bootstrap) -> dict[str, Any]:
    """Each verifier against the majority of annotators; near and away from thresholds over all
    actions; whether what was said serves as the action."""
    return {
        "all": _verifier(key.items, rated, raters, boot),
        "by_action": {action: _verifier(items, rated, raters, boot) for action, items in
                      _by(key.items, lambda i: i.action).items()},
        "near": _verifier([i for i in key.items if i.near is True], rated, raters, boot),
        "away": _verifier([i for i in key.items if i.near is False], rated, raters, boot)}


def _verifier(items: Sequence[KeyItem], rated: Rated, raters: int,
              boot: Bootstrap) -> dict[str, Any]:
    truth, found = [], []
    functions: list[tuple[str, str]] = []
    for item in items:
        human = majority([a.values["met"] for a in rated[item.item_id]])
        function = majority([a.values["functional"] for a in rated[item.item_id]
                             if "functional" in a.values])
        if human is not None:
            truth.append(human)
            found.append("yes" if item.verdict == "pass" else "no")
        if function is not None:
            functions.append((str(item.verdict), function))
    serves = [f for _, f in functions if f != "no_speech"]
    return {
        "items": len(items), "no_majority": len(items) - len(truth),
        **figures.binary(truth, found, "yes", boot),
        "accuracy": figures.accuracy(truth, found),
        "kappa": figures.cohen_kappa(truth, found, boot),
        "human_kappa": figures.fleiss_kappa(
            _counts(items, rated, raters, "met", ("yes", "no")), boot),
        "functional": figures.share(serves.count("yes"), len(serves)),
        "functional_by_verdict": {verdict: dict(Counter(f for v, f in functions if v == verdict))
                                  for verdict in ("pass", "fail")}}


# --- H3 ---------------------------------------------------------------------------------------


def h3(key: Key, rated: Rated, raters: int, boot: Bootstrap) -> dict[str, Any]:
    """Each judge against the mean of annotators on the scales, and against their majority on the
    labels; and how far annotators agree themselves."""
    labelled = [i for i in key.items if "conflict" in i.fields]
    return {
        "judges": {name: _judge(name, key.items, rated, boot) for name in key.judges},
        "human": {
            "pas_pairs": _pairs(key.items, rated),
            "conflict_kappa": figures.fleiss_kappa(
                _counts(labelled, rated, raters, "conflict", LABELS), boot)}}


def _judge(name: str, items: Sequence[KeyItem], rated: Rated, boot: Bootstrap) -> dict[str, Any]:
    def scale(field: str, of: Callable[[KeyItem], int]) -> Mapping[str, Estimate]:
        held = [(item, rated[item.item_id]) for item in items if rated[item.item_id]]
        return figures.on_scale(
            [statistics.fmean(float(a.values[field]) for a in answers) for _, answers in held],
            [of(item) for item, _ in held], boot)

    truth, found, no_majority = [], [], 0
    for item in items:
        said = item.judges[name].conflict
        if "conflict" not in item.fields or said is None:
            continue
        human = majority([a.values["conflict"] for a in rated[item.item_id]])
        if human is None:
            no_majority += 1
            continue
        truth.append(human)
        found.append(str(said))
    return {
        "pas": scale("pas", lambda i: i.judges[name].pas),
        "register": scale("register", lambda i: i.judges[name].register_fit),
        "content": scale("content", lambda i: i.judges[name].content_fit),
        "conflict": {"accuracy": figures.accuracy(truth, found),
                     "macro_f1": figures.macro_f1(truth, found, boot),
                     "kappa": figures.cohen_kappa(truth, found, boot),
                     "no_majority": no_majority}}


def _pairs(items: Sequence[KeyItem], rated: Rated) -> dict[str, Any]:
    """What two annotators agree on PAS, on average over pairs of them: a mark that no judge can be
    asked to pass."""
    found = []
    people = sorted({a.annotator for item in items for a in rated[item.item_id]})
    by_person = {p: {item.item_id: float(a.values["pas"]) for item in items
                     for a in rated[item.item_id] if a.annotator == p} for p in people}
    few = Bootstrap(draws=1)  # its intervals are not used
    for one, two in itertools.combinations(people, 2):
        both = [i for i in by_person[one] if i in by_person[two]]
        found.append(figures.on_scale([by_person[one][i] for i in both],
                                      [by_person[two][i] for i in both], few))

    def mean(name: str) -> Estimate:
        values = [f[name].value for f in found]
        known = [v for v in values if v is not None]
        if not known or len(known) < len(values):
            return Estimate(None, len(known), None, "it needs two annotators or more, each pair "
                            "with items in common that vary")
        return Estimate(statistics.fmean(known), len(known))

    return {name: mean(name) for name in ("pearson", "spearman", "mae")}


# --- audit ------------------------------------------------------------------------------------


def audit(key: Key, rated: Rated, raters: int, boot: Bootstrap) -> dict[str, Any]:
    """Shares of faithful, minor, major; an item with several answers counts by the median one, the
    worse of two in the middle."""
    return {
        "all": _fidelity(key.items, rated),
        "by_system": {name: _fidelity(items, rated) for name, items in
                      _by(key.items, lambda i: i.system).items()},
        "by_transcript": {name: _fidelity(items, rated) for name, items in
                          _by(key.items, lambda i: i.transcript).items()},
        "human_kappa": figures.fleiss_kappa(
            _counts(key.items, rated, raters, "fidelity", FIDELITY), boot)}


def _fidelity(items: Sequence[KeyItem], rated: Rated) -> dict[str, Any]:
    found = []
    for item in items:
        given = sorted(FIDELITY.index(a.values["fidelity"]) for a in rated[item.item_id])
        if given:
            found.append(FIDELITY[given[len(given) // 2]])
    return {"items": len(items), "unanswered": len(items) - len(found),
            **{name: figures.share(found.count(name), len(found)) for name in FIDELITY}}
