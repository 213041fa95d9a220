// Runs a program in which membarrier is not there, as on old kernels and under some sandboxes: the
// scheduler's barriers then are full fences. Exit code 77: the kernel lets no filter be set.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

int main(int count, char** arguments) {
  if (count < 2) {
    std::fputs("usage: without_membarrier PROGRAM [ARGUMENT...]\n", stderr);
    return 2;
  }
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof rules / sizeof rules[0], rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("no system call filter can be set");
    return 77;
  }
  if (syscall(SYS_membarrier, 0, 0, 0) != -1 || errno != ENOSYS) {
    std::fputs("membarrier is still there\n", stderr);
    return 1;
  }
  execv(arguments[1], arguments + 1);
  std::perror(arguments[1]);
  return 1;
}
