"""What installed headers show: one type of a name, and nothing of what is behind it. Part of
tidy.py."""
import collections
import re

from tidy_includes import Finding

DECLARED = re.compile(r"^\s*(?:class|struct)\s+(\w+);", re.MULTILINE)
DEFINED = re.compile(
    r"\b(?:class|struct|enum\s+class|enum|concept|using)\s+(?:\[\[.*?\]\]\s*)?(\w+)\s*"
    r"(?:final\s*)?(?::(?!:)[^;{]*)?(?:\{|=)", re.DOTALL)
# Comments are blank: the end of a namespace is a brace with blanks after it.
NAMESPACE = re.compile(r"^(?:inline )?namespace(?: ([\w:]+))? \{|^\} {4,}$", re.MULTILINE)
TYPE = re.compile(r"^(?:template <.*>\s+)?(?:class|struct|union|enum class) (\w+)(?: final)?"
                  r"(?: :[^;{]*)? \{", re.MULTILINE)
SCOPE = re.compile(r"\b(namespace|class|struct|enum|union)\b(?!.*[;)]\s*$)", re.DOTALL)
ACCESS = re.compile(r"\b(public|protected|private)\s*:(?!:)")


def parts(code):
    """(offset, text, kinds): each stretch of `code` between scopes' ends, with the kinds of the
    scopes around it: namespace, public, private, or body for what is in braces otherwise."""
    kinds, start, head = [], 0, 0
    for match in re.finditer(r"[{};]|\b(?:public|protected|private)\s*:(?!:)", code):
        at, token = match.start(), match.group()
        if token == ";":
            head = match.end()
            continue
        yield start, code[start:at], tuple(kinds)
        start = match.end()
        if token == "{":
            scope = SCOPE.search(re.sub(r"template\s*<[^;{]*?>\s*(?=class|struct)", "",
                                        code[head:at]))
            word = scope.group(1) if scope else "body"
            kinds.append({"namespace": "namespace", "class": "private", "struct": "public",
                          "union": "public"}.get(word, "body"))
            head = match.end()
        elif token == "}":
            if kinds:
                kinds.pop()
            head = match.end()
        else:
            kinds[-1] = "public" if token.startswith("public") else "private"
            head = match.end()
    yield start, code[start:], tuple(kinds)


def check_face(headers):
    """No installed header lets a program come to a type that none of them defines. `headers`: their
    code by path."""
    defined = {name for code in headers.values() for name in DEFINED.findall(code)}
    hidden = {name for code in headers.values() for name in DECLARED.findall(code)} - defined
    for path, code in headers.items():
        for offset, text, kinds in parts(code):
            if not set(kinds) <= {"namespace", "public"}:
                continue
            shown = re.sub(r"\bfriend\b[^;]*;|\b(?:class|struct)\s+\w+;",
                           lambda m: re.sub(r"[^\n]", " ", m.group()), text)
            for match in re.finditer(r"\b\w+\b", shown):
                if match.group() in hidden:
                    line = code.count("\n", 0, offset + match.start()) + 1
                    yield Finding(path, line, "face", f"{match.group()} is shown (expected: in no "
                                  "public part, as no installed header defines it)")
    yield from check_twins(headers)


def check_twins(headers):
    """No two types of one name, whatever their namespaces."""
    seen = collections.defaultdict(list)
    for path, code in headers.items():
        for offset, text, kinds in parts(code):
            # A definition's head ends the stretch; what is in classes and bodies has their names.
            if set(kinds) <= {"namespace"}:
                for match in DEFINED.finditer(text + "{"):
                    line = code.count("\n", 0, offset + match.start(1)) + 1
                    seen[match.group(1)].append((path, line))
    for name, places in seen.items():
        for path, line in places[1:]:
            yield Finding(path, line, "twins", f"{name} is also in {places[0][0]} (expected one "
                          "public type of that name, whatever its namespace)")


def check_names(code_of):
    """Two types of one name in one namespace: linkers take the functions of one for those of the
    other. Those in unnamed namespaces are of their file alone."""
    seen = {}
    for path, code in code_of.items():
        spaces = []
        for match in sorted([*NAMESPACE.finditer(code), *TYPE.finditer(code)],
                            key=lambda found: found.start()):
            if match.re is TYPE:
                if None in spaces:
                    continue
                other = seen.setdefault(("::".join(spaces), match.group(1)), path)
                if other != path:
                    yield Finding(path, code.count("\n", 0, match.start()) + 1, "twins",
                                  f"{match.group(1)} (expected one of that name, as in {other})")
            elif match.group().startswith("}"):
                spaces[-1:] = []
            else:
                spaces.append(match.group(1))
