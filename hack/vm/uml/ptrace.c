// User-mode Linux keeps the vector registers of its processes in a buffer that ends
// before those of AMX. On a processor with AMX the host's kernel refuses to restore
// them from so short a buffer (EFAULT: PTRACE_SETREGSET wants the XSAVE area whole),
// and no process of the guest ever starts. Preloaded into user-mode Linux, this hands
// the kernel a whole area: what user-mode Linux keeps, and AMX in its initial state.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

// Where the XSAVE area says which components it holds, and the bits of those that
// user-mode Linux has room for: x87, SSE, AVX, MPX, AVX-512, PKRU.
enum { header = 512 };
static const uint64_t kept = 0x2ff;

// User-mode Linux has one processor and calls ptrace from nowhere else.
static char area[1 << 16];
static size_t whole;

static long (*real)(enum __ptrace_request, ...);

long ptrace(enum __ptrace_request request, ...) {
	va_list args;
	va_start(args, request);
	int pid = va_arg(args, int);
	void *addr = va_arg(args, void *);
	void *data = va_arg(args, void *);
	va_end(args);
	if (!real)
		real = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
	struct iovec *given = data;
	if (request != PTRACE_SETREGSET || (uintptr_t)addr != NT_X86_XSTATE || given->iov_len <= header)
		return real(request, pid, addr, data);
	if (!whole) {
		struct iovec all = {area, sizeof area};
		if (real(PTRACE_GETREGSET, pid, addr, &all) < 0)
			return real(request, pid, addr, data);
		whole = all.iov_len;
	}
	if (given->iov_len >= whole)
		return real(request, pid, addr, data);
	memset(area, 0, whole);
	memcpy(area, given->iov_base, given->iov_len);
	uint64_t components;
	memcpy(&components, area + header, sizeof components);
	components &= kept;
	memcpy(area + header, &components, sizeof components);
	struct iovec all = {area, whole};
	return real(request, pid, addr, &all);
}
