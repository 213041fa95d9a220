// See whole_file.hpp.
#include "tools/explain/whole_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "heddle/status.hpp"

namespace heddle::tools {

std::string contents_of(const std::string& path) {
  std::ifstream file;
  std::error_code ignored;
  if (path != "-" && std::filesystem::is_directory(path, ignored)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is a directory (expected a file of declarations and statements)", path));
  }
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (path != "-" && (!file.is_open() || file.bad()))
    throw Error(ErrorCode::not_found, fmt::format("'{}' cannot be read", path));
  return text;
}

}  // namespace heddle::tools
