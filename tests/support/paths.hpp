// Paths of this build that tests read and run. Only this small file differs between clones, and a
// cache of objects serves the remaining files.
#pragma once

namespace heddle::test {

extern const char* const source_root;      ///< of the project
extern const char* const cuda_standin;     ///< a library that replaces a GPU's driver
extern const char* const nvrtc_standin;    ///< a library that replaces NVRTC
extern const char* const standin_kernels;  ///< an image of kernels for cuda_standin
extern const char* const heddle_program;   ///< empty where the build leaves the tools out

}  // namespace heddle::test
