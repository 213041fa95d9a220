"""The mutants of a source: its checks, found by their form, and its rules, which tests/rules.txt
lists; and the source with a switch at each. Part of mutate.py."""
import dataclasses
import fnmatch
import re

from tidy import code_only

REFUSAL = re.compile(
    r"\bthrow\b|\breturn\s+(?:heddle::)?Status\(|\b(?:broken|refuse|fail|reject|cannot|bad)\w*\("
    r"|\brule\s*=|\breturn\s+status;|\breturn\s+refused")
CALL = re.compile(
    r"(?<=[;{}])(\s*)((?:\w+::)*(?:require|check|verify|throw_if|expect|ensure)\w*\()")
# An if declares what it looks at: `Type name = ...`, or `auto [one, other] = ...`.
DECLARATION = re.compile(r"^[\w:<>,*&\s]+?(?:\b(?P<name>\w+)|\[[^]]*\])\s*=(?!=)")
REFUSAL_REACH = 1200  # characters of a body that are looked at


@dataclasses.dataclass
class Mutant:
    number: int
    path: str
    line: int
    kind: str   # never, part, always, call, rule
    text: str   # of the condition, in one line; of a rule also what it becomes
    killer: str = ""  # of a rule: the test that must fail, without parameters

    @property
    def name(self):
        return f"{self.kind}: {self.text}"

    def may_be_killed_by(self, test):
        """Whether that is a test that may: any, or that of a rule, whatever its parameters."""
        return self.killer in ("", test) or fnmatch.fnmatchcase(test, f"*/{self.killer}/*")

    def __str__(self):
        return f"{self.path}:{self.line}: {self.name}"


@dataclasses.dataclass(frozen=True)
class Rule:
    path: str
    old: str     # an expression of that file, which is there once
    new: str     # what it becomes
    killer: str  # the test that must fail then


def read_rules(text):
    """What tests/rules.txt says; ValueError for a line that is none of a rule's."""
    rules, parts, last = [], {}, ""
    for number, line in enumerate(text.splitlines(), 1):
        sign, rest = line[:2], line[2:].strip()
        if not line.strip() or line.startswith("#"):
            continue
        if sign == "  " and last in parts:
            parts[last] += " " + rest
            continue
        if sign not in ("@ ", "- ", "+ ", "! ") or not rest:
            raise ValueError(f"line {number} is none of a rule: {line}")
        last = sign[0]
        parts[last] = rest
        if sign == "! ":
            if set(parts) != set("@-+!"):
                raise ValueError(f"line {number} ends no whole rule")
            rules.append(Rule(parts["@"], parts["-"], parts["+"], parts["!"]))
            del parts["+"], parts["!"]  # file and expression may have another
    return rules


def closing(code, at):
    """Where the bracket that opens at `at` is closed."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    depth = 0
    for k in range(at, len(code)):
        if code[k] in pairs:
            depth += 1
        elif code[k] in pairs.values():
            depth -= 1
            if depth == 0:
                return k
    return -1


def top_level(code, begin, end, separator):
    """Ends of the pieces that `separator` makes of code[begin:end], brackets aside."""
    ends, k = [], begin
    while k < end:
        if code[k] in "({[":
            k = closing(code, k)
        elif code.startswith(separator, k):
            ends.append(k)
            k += len(separator) - 1
        k += 1
    return ends + [end]


def body_after(code, at):
    """(begin, end) of the statement or block behind a condition."""
    begin = at + len(code[at:]) - len(code[at:].lstrip())
    if code[begin:begin + 1] == "{":
        return begin, closing(code, begin) + 1
    return begin, top_level(code, begin, len(code), ";")[0] + 1


class Rewriter:
    """Finds the checks of one file, and writes it with a switch at each."""

    def __init__(self, path, text, first):
        self.path, self.text, self.code = path, text, code_only(text)
        self.first, self.mutants, self.edits = first, [], []

    def keeps(self, at, kind, begin, end):
        number = self.first + len(self.mutants)
        text = " ".join(self.text[begin:end].split())
        self.mutants.append(Mutant(number, self.path, self.text.count("\n", 0, at) + 1, kind, text))
        return f"::heddle_mutants::keeps({number}u)"

    def wrap(self, begin, end, before, after=")"):
        self.edits += [(begin, before), (end, after)]

    def condition(self, at, begin, end):
        """An if that refuses: never does so, or not for one of its reasons."""
        begin = ([begin] + [e + 1 for e in top_level(self.code, begin, end, ";")[:-1]])[-1]
        begin += len(self.code[begin:end]) - len(self.code[begin:end].lstrip())
        if match := DECLARATION.match(self.code[begin:end]):
            if name := match.group("name"):  # as if it were false
                self.edits.append((end, f"; {self.keeps(at, 'never', begin, end)} && bool({name})"))
            return
        operands = top_level(self.code, begin, end, "||")
        if len(operands) > 1:
            starts = [begin] + [e + 2 for e in operands[:-1]]
            for start, stop in zip(starts, operands):
                self.wrap(start, stop, f" ({self.keeps(at, 'part', start, stop)} && (", "))")
        else:
            self.wrap(begin, end, f"{self.keeps(at, 'never', begin, end)} && (")

    def rule(self, old, rules):
        """An expression is what some rules make of it. Blanks in it may be ends of lines."""
        found = list(re.finditer(r"\s+".join(map(re.escape, old.split())), self.code))
        if len(found) != 1:
            raise ValueError(f"{self.path}: {len(found)} places, instead of one, say: {old}")
        begin, end = found[0].span()
        if {begin, end} & {at for at, _ in self.edits}:
            raise ValueError(f"{self.path}: a check begins or ends where this does: {old}")
        before = ""
        for rule in rules:
            before += f"!{self.keeps(begin, 'rule', begin, end)} ? ({rule.new}) : "
            self.mutants[-1].text += f" => {rule.new}"
            self.mutants[-1].killer = rule.killer
        self.wrap(begin, end, f"({before}(", "))")

    def run(self, rules=()):
        self.find_checks()
        for old in dict.fromkeys(rule.old for rule in rules):
            self.rule(old, [rule for rule in rules if rule.old == old])
        text = self.text
        for at, added in sorted(self.edits, key=lambda edit: edit[0], reverse=True):
            text = text[:at] + added + text[at:]
        return text

    def find_checks(self):
        for match in re.finditer(r"\bif \(", self.code):
            begin = match.end()
            end = closing(self.code, begin - 1)
            body_begin, body_end = body_after(self.code, end + 1)
            body = self.code[body_begin:body_end][:REFUSAL_REACH]
            if REFUSAL.search(body):
                self.condition(match.start(), begin, end)
            elif re.match(r"return\b", body):
                follows = self.code[body_end:body_after(self.code, body_end)[1]].lstrip()
                if re.match(rf"(?:{REFUSAL.pattern})", follows):
                    first = top_level(self.code, begin, end, ";")
                    start = begin if len(first) == 1 else first[-2] + 1
                    if DECLARATION.match(self.code[start:end]):
                        continue  # what it declares is what is returned
                    keeps = self.keeps(match.start(), "always", start, end)
                    self.wrap(start, end, f"!{keeps} || (")
        for match in CALL.finditer(self.code):
            end = closing(self.code, match.end() - 1) + 1
            if self.code[end:end + 1] == ";":
                begin = match.start(2)
                self.edits.append((begin, f"if ({self.keeps(begin, 'call', begin, end)}) "))
