// A trace as Chrome's trace event format: https://docs.google.com/document/d/
// 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. One thread at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <utility>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle {
namespace {

constexpr const char* end_names[] = {"done", "failed", "skipped", "cancelled"};

/// True if `text` consists of complete UTF-8 sequences.
bool is_utf8(std::string_view text) {
  std::size_t more = 0;  // bytes of the sequence still to come
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0) == 0x80;
    if (continues != (more > 0) || byte >= 0xF8) return false;
    more = continues ? more - 1 : byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : byte >= 0x80 ? 1 : 0;
  }
  return more == 0;
}

/// A JSON string. Text that is not UTF-8 is read as Latin-1.
std::string quoted(std::string_view text) {
  const unsigned plain_max = is_utf8(text) ? 0xFF : 0x7F;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte > plain_max) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// The viewer shows devices as threads of one process, and threads as threads of another process.
std::string place(std::uint64_t track) {
  return fmt::format(R"("pid":{},"tid":{})", Trace::is_thread(track) ? 2 : 1,
                     track & ~Trace::thread_bit);
}

class Writer {
 public:
  Writer(const Trace& trace, std::ostream& out) : trace_(trace), out_(out) {}

  void write() {
    // Only text: numbers would follow the stream's locale.
    out_ << R"({"displayTimeUnit":"ns","otherData":{"producer":"heddle","dropped":)"
         << fmt::to_string(trace_.dropped) << R"(},"traceEvents":[)";
    metadata("process_name", R"("pid":1)", "devices");
    metadata("process_name", R"("pid":2)", "threads");
    for (const auto& [track, name] : trace_.names) metadata("thread_name", place(track), name);
    for (const TraceEvent& event : trace_.events) {
      if (event.kind == TraceEvent::Kind::submit)
        submits_.emplace(std::pair(event.device, event.ticket), Arrow{++arrows_, event.begin});
    }
    for (const TraceEvent& event : trace_.events) write(event);
    out_ << "\n]}\n";
  }

 private:
  void item(std::string_view text) {
    out_ << (first_ ? "\n{" : ",\n{") << text << '}';
    first_ = false;
  }
  void metadata(const char* kind, const std::string& where, const std::string& name) {
    item(fmt::format(R"("ph":"M","name":"{}",{},"args":{{"name":{}}})", kind, where, quoted(name)));
  }
  /// A span of time; a viewer shows `about` on request.
  void span(const TraceEvent& event, const char* category, const std::string& name,
            const std::string& about) {
    item(fmt::format(R"("ph":"X","cat":"{}","name":{},{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}})",
                     category, quoted(name), place(event.track), microseconds(event.begin),
                     microseconds(event.duration), about));
  }
  /// One end of the arrow from a submit to its task.
  void arrow(const TraceEvent& event, std::string_view end) {
    const auto at = submits_.find({event.device, event.ticket});
    if (at == submits_.end()) return;
    // A worker that finds the task at once counts it from the end of the previous task.
    const auto when = std::max(event.begin, at->second.begin);
    item(fmt::format(R"({},"cat":"submit","name":"submit","id":{},{},"ts":{:.3f})", end,
                     at->second.id, place(event.track), microseconds(when)));
  }

  void write(const TraceEvent& event) {
    const std::string& other = trace_.name_of(event.device);
    const std::string ticket = fmt::format(R"("ticket":{})", event.ticket);
    switch (event.kind) {
      case TraceEvent::Kind::task:
        span(event, "task", event.label,
             fmt::format(R"({},"end":"{}")", ticket,
                         end_names[static_cast<std::size_t>(event.end)]));
        return arrow(event, R"("ph":"f","bp":"e")");
      case TraceEvent::Kind::wait:
        return span(event, "wait", fmt::format("wait for {}#{}", other, event.ticket), "");
      case TraceEvent::Kind::park:
        return span(event, "park", "parked", "");
      case TraceEvent::Kind::callbacks:
        return span(event, "callbacks", "callbacks", ticket);
      case TraceEvent::Kind::submit:
        span(event, "submit", "submit to " + other, ticket);
        return arrow(event, R"("ph":"s")");
      case TraceEvent::Kind::wake:
        return span(event, "wake", "wake " + (event.device == 0 ? "a worker" : other), "");
    }
  }

  struct Arrow {
    std::uint64_t id;
    std::chrono::nanoseconds begin;
  };

  const Trace& trace_;
  std::ostream& out_;
  bool first_ = true;
  std::uint64_t arrows_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Arrow> submits_;
};

}  // namespace

const std::string& Trace::name_of(std::uint64_t track) const noexcept {
  static sched::NeverDestroyed<const std::string> unknown("?");
  const auto at = names.find(track);
  return at != names.end() ? at->second : *unknown;
}

void Trace::write_chrome_json(std::ostream& out) const { Writer(*this, out).write(); }

void Trace::write_chrome_json(const std::string& path) const {
  std::ofstream file(path);
  if (file) write_chrome_json(file);
  file.close();
  if (!file) {
    throw Error(ErrorCode::unavailable,
                fmt::format("trace: '{}' cannot be written ({})", path, strerrordesc_np(errno)));
  }
}

}  // namespace heddle
