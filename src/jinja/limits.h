#pragma once

#include <cstddef>

// Templates come from files of strangers. What a well-meant one needs lies far below each of these.
namespace patchbay::jinja {

/// Bytes of a template's source.
inline constexpr size_t k_max_source = size_t{1} << 20;

/// Variables of the template itself, or of one of its macros.
inline constexpr int k_max_variables = 1000;

/// Tags and brackets inside one another.
inline constexpr int k_max_nesting = 100;

/// Levels of an expression, such as the terms of a long sum.
inline constexpr int k_max_expression_depth = 400;

/// Nested evaluations, macro calls included. A level takes below 1 KiB of stack in a release build.
inline constexpr int k_max_eval_depth = 1500;

/// Levels of lists and dicts inside one another.
inline constexpr int k_max_value_depth = 400;

/// Bytes that one value may stand for, those of its items included.
inline constexpr size_t k_max_value_size = size_t{128} << 20;

/// Bytes of all values made during one rendering, also of those that are gone again.
inline constexpr size_t k_max_bytes_made = size_t{1} << 30;

/// Evaluations during one rendering; about a second.
inline constexpr size_t k_max_steps = 10'000'000;

/// Bytes of the text rendered.
inline constexpr size_t k_max_output = size_t{64} << 20;

/// Items of a range, as in jinja2's sandbox.
inline constexpr size_t k_max_range = 100'000;

/// Throws RenderError when a value of that many bytes would be too large.
void check_value_size(size_t size_bytes);

/// The same for `n` things of `size_bytes`.
void check_value_size(size_t n, size_t size_bytes);

}  // namespace patchbay::jinja
