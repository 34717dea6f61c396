package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// kill is a process that the kernel killed for want of memory.
type kill struct {
	process string
	pid     int
}

// recordSize is more than a record of the kernel's log has, with its continuation lines
// (CONSOLE_EXT_LOG_MAX of the kernel is 8192).
const recordSize = 16 << 10

// watchKills tells of processes that were killed because the whole machine was short of
// memory, until ctx ends. Those killed for the limit of their own cgroup are told by their
// containers.
func (m *Machine) watchKills(ctx context.Context, tell Tell) error {
	log, err := openKmsg(m.cfg.Kmsg)
	if err != nil {
		m.cfg.Log.Warn("the kernel's log cannot be read: processes that it kills for want of memory are not told", "err", err)
		return nil
	}
	stop := context.AfterFunc(ctx, func() { log.Close() }) // ends Read
	defer func() {
		if stop() {
			log.Close()
		}
	}()
	buf := make([]byte, recordSize)
	for {
		n, err := log.Read(buf)
		for line := range bytes.Lines(buf[:max(n, 0)]) {
			if k, ok := parseKill(string(line)); ok {
				tell("Warning", "SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.process, k.pid))
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EPIPE): // records were overwritten before they were read
		case err != nil:
			m.cfg.Log.Warn("the kernel's log ended: processes that it kills for want of memory are not told any more", "err", err)
			return nil
		}
	}
}

// openKmsg opens the kernel's log for what comes from now on
// (https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg).
func openKmsg(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil && !errors.Is(err, syscall.ESPIPE) {
		f.Close()
		return nil, err
	}
	return f, nil
}

// parseKill reads the line that kernels from 5.0 on write for each process that they kill,
// dump_oom_summary in mm/oom_kill.c:
//
//	6,123,4567,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=stress,pid=42,uid=0
//
// It is false for kills by the limit of a cgroup, which have oom_memcg= in the place of
// global_oom, but for the limit of the root.
func parseKill(line string) (kill, bool) {
	_, fields, ok := strings.Cut(line, "oom-kill:constraint=")
	if !ok {
		return kill{}, false
	}
	var k kill
	global := false
	for field := range strings.SplitSeq(strings.TrimSpace(fields), ",") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "global_oom":
			global = true
		case "oom_memcg":
			global = value == "/"
		case "task":
			k.process = value
		case "pid":
			pid, err := strconv.Atoi(value)
			if err != nil {
				return kill{}, false
			}
			k.pid = pid
		}
	}
	return k, global && k.process != "" && k.pid > 0
}
