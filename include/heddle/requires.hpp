// What heddle's headers need of compilers: one line says so, where pages of errors would. Owns
// nothing.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "heddle needs C++20: compile with -std=c++20 or later"
#include <heddle/needs-c++20>  // there is none: compilers end here
#elif defined(__clang__) ? __clang_major__ < 16 : defined(__GNUC__) && __GNUC__ < 11
#error "heddle needs g++ 11 or clang 16, or later"
#include <heddle/needs-a-later-compiler>  // there is none: compilers end here
#endif
