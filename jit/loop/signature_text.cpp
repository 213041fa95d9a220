// The serialised form of a Signature: a line for each entry. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "files/ascii.hpp"
#include "heddle/status.hpp"
#include "jit/loop/signature.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

constexpr std::string_view roles[] = {"input", "output", "inout", "merge", "scratch"};

[[noreturn]] void refuse(std::size_t line, std::string_view expected, std::string_view found) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("signature text line {}: expected {}, found '{}'", line, expected, found));
}

template <class T>
T read(files::WordStream& words, std::size_t line, std::string_view expected) {
  T value{};
  if (!(words >> value)) refuse(line, expected, words.str());
  return value;
}

bool read_flag(files::WordStream& words, std::size_t line) {
  const auto text = read<std::string>(words, line, "0 or 1");
  if (text != "0" && text != "1") refuse(line, "0 or 1", text);
  return text == "1";
}

std::uint32_t read_count(files::WordStream& words, std::size_t line, std::string_view expected) {
  const auto count = read<std::int64_t>(words, line, expected);
  if (count < 0 || count > 0xffff'ffff) refuse(line, expected, std::to_string(count));
  return static_cast<std::uint32_t>(count);
}

ArrayType parse_type(const std::string& text, std::size_t line) {
  const auto open = text.find('[');
  const auto t = parse_dtype(std::string_view(text).substr(0, open));
  if (!t || open == std::string::npos || !text.ends_with(']'))
    refuse(line, "a type such as f32[2,3]", text);
  ArrayType type{*t, {}};
  files::WordStream extents(text.substr(open + 1, text.size() - open - 2));
  std::string extent;
  while (std::getline(extents, extent, ',')) {
    const bool digits = !extent.empty() && extent.size() < 19 &&
                        extent.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) refuse(line, "an extent", extent);
    type.dims.push_back(std::stoll(extent));
  }
  if (!type.num_bytes()) refuse(line, "a type of less than 2^63 bytes", text);
  return type;
}

MemoryMode parse_mode(const std::string& text, std::size_t line) {
  for (auto mode = MemoryMode::unset; mode <= MemoryMode::hosted_volatile;
       mode = static_cast<MemoryMode>(static_cast<int>(mode) + 1)) {
    if (name(mode) == text) return mode;
  }
  refuse(line, "a memory mode", text);
}

Slice parse_slice(files::WordStream& words, std::size_t line, const ArrayType& type) {
  Slice slice;
  slice.begin = read<std::int64_t>(words, line, "where the slice begins");
  slice.end = read<std::int64_t>(words, line, "where the slice ends");
  const Int128 bytes = Int128{slice.end} - slice.begin;
  if (bytes <= 0 || bytes > static_cast<Int128>(*type.num_bytes()))
    refuse(line, "a slice of bytes of the entry", fmt::format("{} {}", slice.begin, slice.end));
  slice.overwritten = read_flag(words, line);
  const std::uint32_t count = read_count(words, line, "how many steps");
  for (std::uint32_t k = 0; k < count; ++k)
    slice.steps.push_back(read<std::int64_t>(words, line, "a step"));
  return slice;
}

SignatureEntry parse_entry(files::WordStream& words, std::size_t line) {
  SignatureEntry entry;
  const auto role = read<std::string>(words, line, "a role");
  const auto* const at = std::find(std::begin(roles), std::end(roles), role);
  if (at == std::end(roles)) refuse(line, "input, output, inout, merge or scratch", role);
  entry.role = static_cast<Role>(at - std::begin(roles));
  entry.type = parse_type(read<std::string>(words, line, "a type"), line);
  for (bool* flag :
       {&entry.reads, &entry.writes, &entry.reads_before_writing, &entry.overwrites_whole}) {
    *flag = read_flag(words, line);
  }
  entry.last_read = read_count(words, line, "a statement or 0");
  entry.first_write = read_count(words, line, "a statement or 0");
  const auto alias = read<std::int64_t>(words, line, "an entry or -1");
  if (alias < -1 || alias > 0xffff'ffff) refuse(line, "an entry or -1", std::to_string(alias));
  if (alias >= 0) entry.alias_of = static_cast<std::uint32_t>(alias);
  entry.mode = parse_mode(read<std::string>(words, line, "a memory mode"), line);
  std::string word;
  words >> word;
  if (word == "slice") {
    entry.slice = parse_slice(words, line, entry.type);
    word.clear();
    words >> word;
  }
  if (!word.empty()) {
    if (word != "takes") refuse(line, "'slice', 'takes' or the end of the line", word);
    do {
      const auto input = read_count(words, line, "an entry");
      if (!entry.takes.empty() && input <= entry.takes.back())
        refuse(line, "entries in order", std::to_string(input));
      entry.takes.push_back(input);
    } while (words >> std::ws && !words.eof());
  }
  return entry;
}

void parse_header(Signature& signature, files::WordStream& words, std::size_t line) {
  signature.version = read<std::uint32_t>(words, line, "a version");
  if (signature.version != signature_version) {
    refuse(line, fmt::format("version {}", signature_version), std::to_string(signature.version));
  }
  if (const auto word = read<std::string>(words, line, "'effects'"); word != "effects")
    refuse(line, "'effects'", word);
  signature.effects = read<std::uint32_t>(words, line, "effects");
}

void add_entry(Signature& signature, files::WordStream& words, std::size_t line) {
  signature.entries.push_back(parse_entry(words, line));
  if (signature.entries.back().role != Role::merge) return;
  if (signature.merge) refuse(line, "at most one merge entry", words.str());
  signature.merge = static_cast<std::uint32_t>(signature.entries.size() - 1);
}

}  // namespace

std::string Signature::serialize() const {
  std::string text = fmt::format("heddle-signature {} effects {}\n", version, effects);
  for (const SignatureEntry& e : entries) {
    fmt::format_to(std::back_inserter(text), "entry {} {} {:d} {:d} {:d} {:d} {} {} {} {}",
                   roles[static_cast<std::size_t>(e.role)], e.type.to_string(), e.reads, e.writes,
                   e.reads_before_writing, e.overwrites_whole, e.last_read, e.first_write,
                   e.alias_of ? static_cast<std::int64_t>(*e.alias_of) : -1, name(e.mode));
    if (e.slice) {
      fmt::format_to(std::back_inserter(text), " slice {} {} {:d} {}", e.slice->begin, e.slice->end,
                     e.slice->overwritten, e.slice->steps.size());
      for (const std::int64_t step : e.slice->steps)
        fmt::format_to(std::back_inserter(text), " {}", step);
    }
    if (!e.takes.empty())
      fmt::format_to(std::back_inserter(text), " takes {}", fmt::join(e.takes, " "));
    text += '\n';
  }
  for (const StaticBounds& b : statics) {
    fmt::format_to(std::back_inserter(text), "static {} {}\n", b.lowest, b.highest);
  }
  return text;
}

Signature Signature::parse(std::string_view text) {
  Signature signature;
  files::WordStream lines{std::string(text)};
  std::string row;
  std::size_t line = 0;
  while (std::getline(lines, row)) {
    ++line;
    files::WordStream words(row);
    const auto kind = read<std::string>(words, line, "'heddle-signature', 'entry' or 'static'");
    if (line == 1) {
      if (kind != "heddle-signature") refuse(line, "'heddle-signature'", kind);
      parse_header(signature, words, line);
    } else if (kind == "entry") {
      add_entry(signature, words, line);
    } else if (kind == "static") {
      StaticBounds bounds;
      bounds.lowest = read<std::int64_t>(words, line, "a lowest value");
      bounds.highest = read<std::int64_t>(words, line, "a highest value");
      signature.statics.push_back(bounds);
    } else {
      refuse(line, "'entry' or 'static'", kind);
    }
    if (std::string rest; words >> rest) refuse(line, "the end of the line", rest);
  }
  if (line == 0) refuse(1, "'heddle-signature'", "");
  for (const SignatureEntry& entry : signature.entries) {
    if (entry.alias_of && *entry.alias_of >= signature.entries.size())
      refuse(line, "aliases of entries that exist", std::to_string(*entry.alias_of));
    if (entry.slice && entry.slice->steps.size() != signature.statics.size()) {
      refuse(line, fmt::format("{} steps of each slice", signature.statics.size()),
             std::to_string(entry.slice->steps.size()));
    }
    if (!entry.takes.empty() && entry.takes.back() >= signature.entries.size())
      refuse(line, "to take from entries that exist", std::to_string(entry.takes.back()));
  }
  return signature;
}

}  // namespace heddle::jit
