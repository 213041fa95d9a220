// A stand-in for NVRTC, for machines without NVRTC: the system's compiler compiles the given text
// as C++, and the "CUBIN" is the resulting library, whose kernels are StandinKernel. One thread.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

/// Definitions that CUDA C++ adds to C++, and the calling convention of kernels.
constexpr const char* before = R"(
#define __device__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
extern "C" {
float fabsf(float); double fabs(double); float fmaf(float, float, float);
double fma(double, double, double); float sqrtf(float); double sqrt(double); float rintf(float);
double rint(double); float fmodf(float, float); double fmod(double, double);
float floorf(float); double floor(double); float ceilf(float); double ceil(double);
float truncf(float); double trunc(double);
}
static inline float __int_as_float(int v) { float f; __builtin_memcpy(&f, &v, 4); return f; }
static inline double __longlong_as_double(long long v) {
  double f; __builtin_memcpy(&f, &v, 8); return f;
}
static __thread int standin_result;
struct standin_axis { unsigned x; };
struct standin_meeting {
  int (*wait)(standin_meeting*, unsigned, int);
  void (*wait_in_warp)(standin_meeting*, unsigned);
  void (*accuse)(standin_meeting*, const char*, unsigned long long, unsigned, unsigned);
  unsigned long long epoch, warp_epochs[32];
};
struct standin_place { unsigned group, groups, thread, threads; standin_meeting* meeting; };
static __thread const standin_place* standin_now;
static inline int standin_wait(unsigned line, int vote) {
  const standin_place* const self = standin_now;
  const int votes = self->meeting->wait(self->meeting, line, vote);
  standin_now = self;
  return votes;
}
#define __trap() (void)(standin_result = 719)
#define __threadfence_system() __sync_synchronize()
#define __syncthreads() standin_wait(__LINE__, 0)
#define __syncthreads_or(vote) standin_wait(__LINE__, vote)
static inline void standin_wait_in_warp(unsigned line) {
  const standin_place* const self = standin_now;
  self->meeting->wait_in_warp(self->meeting, line);
  standin_now = self;
}
#define __syncwarp() standin_wait_in_warp(__LINE__)
// Atomic operations on memory, which processors of the host share too.
template <class T, class Change> static inline T standin_atomic(T* at, const Change& change) {
  T before, after;
  __atomic_load(at, &before, __ATOMIC_RELAXED);
  do {
    after = change(before);
  } while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
  return before;
}
#define STANDIN_ATOMIC(type, name, after)                       \
  static inline type name(type* at, type v) {                   \
    return standin_atomic(at, [v](type old) -> type { return after; }); \
  }
STANDIN_ATOMIC(int, atomicAdd, (int)((unsigned)old + (unsigned)v))
STANDIN_ATOMIC(unsigned, atomicAdd, old + v)
STANDIN_ATOMIC(unsigned long long, atomicAdd, old + v)
STANDIN_ATOMIC(float, atomicAdd, old + v)
STANDIN_ATOMIC(double, atomicAdd, old + v)
STANDIN_ATOMIC(int, atomicMin, v < old ? v : old)
STANDIN_ATOMIC(unsigned, atomicMin, v < old ? v : old)
STANDIN_ATOMIC(int, atomicMax, v > old ? v : old)
STANDIN_ATOMIC(unsigned, atomicMax, v > old ? v : old)
// The touches of an element by one thread or, in a warp or a group, by several.
struct standin_touch {
  unsigned long long epoch, warp_epoch;
  unsigned thread, threads;  // threads: how many neighbours, from thread on, may have touched
  bool by_others() const {
    const unsigned self = standin_now->thread;
    const standin_meeting& meeting = *standin_now->meeting;
    if (epoch != meeting.epoch || (threads == 1 && thread == self)) return false;
    const bool in_own_warp = threads <= 32 && thread / 32 == self / 32;
    return !in_own_warp || warp_epoch == meeting.warp_epochs[self / 32];
  }
  void add() {
    const unsigned self = standin_now->thread;
    const standin_meeting& meeting = *standin_now->meeting;
    if (by_others()) {
      const bool in_own_warp = threads <= 32 && thread / 32 == self / 32;
      thread = in_own_warp ? self / 32 * 32 : 0;
      threads = in_own_warp ? 32 : 1024;
    } else {
      thread = self;
      threads = 1;
    }
    epoch = meeting.epoch;
    warp_epoch = meeting.warp_epochs[self / 32];
  }
};
// A copy to an element that has not ended: the thread that began it ends it.
struct standin_copy {
  standin_copy* next;
  void* to;  // null: no copy
  const void* from;
  unsigned bytes;
};
static __thread standin_copy* standin_copies[1024];  // of each thread of the group
static inline void wait_for_copies() {
  standin_copy*& first = standin_copies[standin_now->thread];
  for (; first != 0; first = first->next) {
    __builtin_memcpy(first->to, first->from, first->bytes);
    first->to = 0;
  }
}
template <class T> struct standin_element {
  T value;
  standin_touch written, read;
  standin_copy copy;
};
template <class T> struct standin_access {
  standin_element<T>& at;
  const char* name;
  unsigned long long number;
  void check(const standin_touch& touch) const {
    const unsigned a_copy = ~0u;  // as the other thread
    if (at.copy.to != 0)
      standin_now->meeting->accuse(standin_now->meeting, name, number, standin_now->thread, a_copy);
    if (!touch.by_others()) return;
    standin_now->meeting->accuse(standin_now->meeting, name, number, standin_now->thread,
                                 touch.thread);
  }
  operator T() const {
    check(at.written);
    at.read.add();
    return at.value;
  }
  T operator=(T value) const {
    check(at.written);
    check(at.read);
    at.written.add();
    return at.value = value;
  }
  T operator=(const standin_access& other) const { return *this = (T)other; }
  void begin_copy(const T* from) const {
    check(at.written);
    check(at.read);
    if (at.copy.to != 0) return;  // accused
    at.written.add();
    standin_copy*& first = standin_copies[standin_now->thread];
    at.copy = {first, &at.value, from, sizeof(T)};
    first = &at.copy;
  }
};
template <class T, unsigned N> struct standin_shared {
  standin_element<T>* elements;
  const char* name;
  standin_access<T> operator[](unsigned long long number) const {
    if (number >= N) standin_now->meeting->accuse(standin_now->meeting, name, number,
                                                   standin_now->thread, standin_now->thread);
    return {elements[number < N ? number : 0], name, number};
  }
};
// Wide accesses touch each element; arrays of which there are any begin at multiples of their size.
template <class Wide> Wide& standin_wide_at(const void* from, long long at) {
  if ((unsigned long long)from % sizeof(Wide) != 0) standin_result = 716;  // misaligned address
  return ((Wide*)from)[at];
}
#define WIDE_AT(type, from, at) standin_wide_at<type>(from, at)
template <class Wide, class Shared> Wide standin_load(const Shared& of, unsigned long long at) {
  Wide value;
  const unsigned count = sizeof value.at / sizeof value.at[0];
  for (unsigned k = 0; k < count; ++k) value.at[k] = of[count * at + k];
  return value;
}
template <class Wide, class Shared>
void standin_store(const Shared& to, unsigned long long at, const Wide& value) {
  const unsigned count = sizeof value.at / sizeof value.at[0];
  for (unsigned k = 0; k < count; ++k) to[count * at + k] = value.at[k];
}
template <class Wide> struct standin_piece {
  template <class Shared>
  static void copy(const Shared& to, unsigned long long at, const void* from, long long place) {
    const Wide& piece = standin_wide_at<const Wide>(from, place);
    const unsigned count = sizeof piece.at / sizeof piece.at[0];
    for (unsigned k = 0; k < count; ++k) to[count * at + k].begin_copy(&piece.at[k]);
  }
};
template <class T> struct standin_single {
  template <class Shared>
  static void copy(const Shared& to, unsigned long long at, const void* from, long long place) {
    to[at].begin_copy((const T*)from + place);
  }
};
template <> struct standin_piece<float> : standin_single<float> {};
template <> struct standin_piece<double> : standin_single<double> {};
template <> struct standin_piece<int> : standin_single<int> {};
template <> struct standin_piece<unsigned> : standin_single<unsigned> {};
template <> struct standin_piece<long long> : standin_single<long long> {};
template <> struct standin_piece<unsigned long long> : standin_single<unsigned long long> {};
#define SHARED_COPY(type, name, at, from, place) standin_piece<type>::copy(name, at, from, place)
#define SHARED_LOAD(type, name, at) standin_load<type>(name, at)
#define SHARED_STORE(type, name, at, value) standin_store(name, at, value)
#define SHARED(type, name, count) \
  static __thread standin_element<type> name##_elements[count]; \
  const standin_shared<type, count> name{name##_elements, #name}
template <class T> T standin_word(unsigned long long word) { return (T)word; }
template <unsigned... K> struct standin_numbers {};
template <unsigned N, unsigned... K> struct standin_count : standin_count<N - 1, N - 1, K...> {};
template <unsigned... K> struct standin_count<0, K...> { using type = standin_numbers<K...>; };
template <class... A, unsigned... K>
void standin_call(void (*kernel)(standin_axis, standin_axis, standin_axis, standin_axis, A...),
                  const unsigned long long* words, const standin_place& at, standin_numbers<K...>) {
  kernel({at.group}, {at.thread}, {at.groups}, {at.threads}, standin_word<A>(words[K])...);
}
template <class... A>
int standin_run(void (*kernel)(standin_axis, standin_axis, standin_axis, standin_axis, A...),
                const unsigned long long* words, const standin_place* at) {
  standin_now = at;
  // The threads of a group run by turns, the last one first.
  if (at->meeting == 0 || at->thread == at->threads - 1) standin_result = 0;
  standin_call(kernel, words, *at, typename standin_count<sizeof...(A)>::type());
  return standin_result;
}
#line 1
)";
constexpr const char* head = "\nKERNEL ";
constexpr const char* options =
    " -std=c++17 -O0 -shared -fPIC -nostdlib -nostartfiles -ffp-contract=off -fno-strict-aliasing"
    " -fvisibility=hidden -w ";

struct Program {
  std::string source, log, cubin;
};

/// The kernels as functions that receive their position, followed by the code that calls them.
std::string as_cpp(const std::string& source) {
  std::string text = before, calls;
  std::size_t done = 0;
  for (std::size_t at; (at = source.find(head, done)) != std::string::npos;) {
    const std::size_t begin = at + std::strlen(head), end = source.find('(', begin);
    const std::string name = source.substr(begin, end - begin);
    text += source.substr(done, at - done) + "\nstatic void standin_" + name +
            "(const standin_axis blockIdx, const standin_axis threadIdx, const standin_axis "
            "gridDim, const standin_axis blockDim,";
    calls += "extern \"C\" __attribute__((visibility(\"default\"))) int " + name +
             "(const unsigned long long* words, const standin_place* at) {\n  return standin_run(" +
             "standin_" + name + ", words, at);\n}\n";
    done = end + 1;
  }
  text += source.substr(done) + calls;
  // The search covers kernels; the text before the kernels holds the definitions.
  const auto has = [&](const char* what) { return source.find(what) != std::string::npos; };
  if (has("__sync") || has("  SHARED("))
    text += "extern \"C\" __attribute__((visibility(\"default\"))) const int standin_meets = 1;\n";
  return text;
}

/// Clears the extra address bit of GPU memory addresses in the text, as the driver does.
std::string with_addresses(std::string text) {
  const std::string begin = "*)0x", end = "ull;";
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos; at += begin.size()) {
    text.insert(text.find(end, at) + end.size() - 1, " & ~(1ull << 47))");
    text.insert(at + 2, "(");
  }
  return text;
}

/// Removes one barrier, of a group or of a warp, or one wait for copies, which
/// HEDDLE_TEST_NVRTC_DROPS selects.
std::string without_barrier(std::string text) {
  const char* const drops = std::getenv("HEDDLE_TEST_NVRTC_DROPS");
  if (drops == nullptr) return text;
  int left = std::atoi(drops);
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const std::string barrier : {"__syncthreads();", "__syncwarp();", "wait_for_copies();"}) {
      if (text.compare(at, barrier.size(), barrier) == 0 && left-- == 0)
        return text.erase(at, barrier.size());
    }
  }
  return text;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return (std::ostringstream() << file.rdbuf()).str();
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int result) {
  return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}
int nvrtcCreateProgram(Program** program, const char* source, const char* /*name*/,
                       int /*num_headers*/, const char* const* /*headers*/,
                       const char* const* /*names*/) {
  *program = new Program{source, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(Program* program, int /*count*/, const char* const* /*options*/) {
  if (const char* const says = std::getenv("HEDDLE_TEST_NVRTC_SAYS")) {
    program->log = says;
    return 6;
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string unit = (folder / "standin").string();
  std::ofstream(unit + ".cpp") << as_cpp(without_barrier(with_addresses(program->source)));
  const std::string command =
      "c++" + std::string(options) + unit + ".cpp -o " + unit + ".so 2> " + unit + ".log";
  const int result = std::system(command.c_str());  // NOLINT: as heddle-compile's own helper
  program->log = content(unit + ".log");
  if (result == 0) program->cubin = content(unit + ".so");
  for (const char* const each : {".cpp", ".so", ".log"}) std::remove((unit + each).c_str());
  return result == 0 ? 0 : 6;
}
int nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(Program* program, char* text) {
  std::strcpy(text, program->log.c_str());
  return 0;
}
int nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
  *bytes = program->cubin.size();
  return 0;
}
int nvrtcGetCUBIN(Program* program, char* bytes) {
  std::memcpy(bytes, program->cubin.data(), program->cubin.size());
  return 0;
}

#pragma GCC visibility pop
}
