#!/usr/bin/env python3
"""Prints src/jinja/case_tables.h from what this Python knows of Unicode.

    scripts/make_case_tables.py | .venv/bin/clang-format --assume-filename=x.h > src/jinja/case_tables.h

The answers of templates have to be Python's, so its own str methods are the source.
"""

import unicodedata

CODE_POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def mapped(method):
    return [(c, method(chr(c))) for c in CODE_POINTS if method(chr(c)) != chr(c)]


def ranges(pairs):
    """[first, last, step, difference]: runs of code points that move by the same, each or every other one."""
    singles = [(c, ord(to) - c) for c, to in pairs if len(to) == 1]
    at = 0
    while at < len(singles):
        first, difference = singles[at]
        end, step = at, 1
        for try_step in (1, 2):
            last = at
            while last + 1 < len(singles) and singles[last + 1] == (singles[last][0] + try_step, difference):
                last += 1
            if last > end:
                end, step = last, try_step
        yield first, singles[end][0], step, difference
        at = end + 1


def print_ranges(name, comment, pairs):
    print(f"/// {comment}\ninline constexpr CaseRange {name}[] = {{")
    for first, last, step, difference in ranges(pairs):
        print(f"{{0x{first:X}, 0x{last:X}, {step}, {difference}}},")
    print("};\n")


def print_strings(name, comment, pairs):
    print(f"/// {comment}\ninline constexpr CaseString {name}[] = {{")
    for c, to in pairs:
        text = "".join(f"\\x{byte:02X}" for byte in to.encode())
        print(f'{{0x{c:X}, "{text}"}},')
    print("};\n")


def digit_ranges():
    points = [c for c in CODE_POINTS if chr(c).isdigit() and not chr(c).isdecimal()]
    runs = []
    for c in points:
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def main():
    print(f"""#pragma once

// Made by scripts/make_case_tables.py from Unicode {unicodedata.unidata_version}; not edited by hand.

namespace patchbay::jinja {{

/// Code points first, first + step, ... last become another by adding `difference`.
struct CaseRange {{
  char32_t first;
  char32_t last;
  int step;
  int difference;
}};

/// A code point that becomes several, or in a title another than in upper case.
struct CaseString {{
  char32_t from;
  const char *to;  ///< UTF-8
}};

struct CharRange {{
  char32_t first;
  char32_t last;
}};
""")
    upper, lower, title = mapped(str.upper), mapped(str.lower), mapped(str.title)
    print_ranges("k_upper_ranges", "str.upper of single code points.", upper)
    print_ranges("k_lower_ranges", "str.lower of single code points.", lower)
    print_strings("k_upper_strings", "str.upper where it gives several.", [(c, to) for c, to in upper if len(to) > 1])
    print_strings("k_lower_strings", "str.lower where it gives several.", [(c, to) for c, to in lower if len(to) > 1])
    special = [(c, chr(c).title()) for c in CODE_POINTS if chr(c).title() != chr(c).upper()]
    print_strings("k_title_strings", "str.title where it is not str.upper.", special)
    print("/// str.isdigit but not str.isdecimal.\ninline constexpr CharRange k_digit_ranges[] = {")
    print("".join(f"{{0x{first:X}, 0x{last:X}}}," for first, last in digit_ranges()))
    print("};\n\n}  // namespace patchbay::jinja")


if __name__ == "__main__":
    main()
