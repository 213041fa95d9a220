// std::chrono's durations and clocks. GCC's <chrono> also holds calendars and their text, which
// take an eighth of the time to compile a file that includes heddle. Owns no data.
#pragma once

#include "heddle/requires.hpp"  // IWYU pragma: keep

#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // IWYU pragma: export
#else
#include <chrono>  // IWYU pragma: export
#endif
