// Catches the error of a call.
#pragma once

#include "heddle/status.hpp"

namespace heddle {

/// The Error that `call` throws, as a status; ok if `call` throws no Error.
template <class Call>
Status failure(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

}  // namespace heddle
