// Loads the given plugins in turn under one path, like hosts that reload a plugin, and prints their
// versions.
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>

int main(int count, char** paths) {
  const auto live = std::filesystem::path(paths[0]).parent_path() / "live.so";
  for (int k = 1; k < count; ++k) {
    std::filesystem::remove(live);
    std::filesystem::copy_file(paths[k], live);
    void* const plugin = dlopen(live.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::puts(dlerror());
      return 1;
    }
    std::printf("%d\n", reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_version"))());
    dlclose(plugin);
  }
}
