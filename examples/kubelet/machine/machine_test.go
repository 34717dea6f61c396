package machine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// proc makes a /proc with kernel settings; those that are not given are as they should be.
func proc(t *testing.T, settings map[string]string, swaps string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range Settings() {
		value, ok := settings[s.Name]
		if !ok {
			value = fmt.Sprint(s.Want)
		}
		write(filepath.Join("sys", s.Name), value+"\n")
	}
	write("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"+swaps)
	return dir
}

func TestPrepare(t *testing.T) {
	wrong := map[string]string{"vm/overcommit_memory": "0", "kernel/panic": "0"}
	tests := []struct {
		name  string
		cfg   Config
		swaps string
		// err is in the error; empty: there is none.
		err   string
		want  map[string]string // settings afterwards
		wantL string            // in the log
	}{
		{name: "settings are set", want: map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10"}, wantL: "kernel setting changed"},
		{name: "protected", cfg: Config{Kernel: ProtectKernel}, err: "protectKernelDefaults: vm.overcommit_memory is 0, want 1", want: wrong},
		{name: "left", cfg: Config{Kernel: LeaveKernel}, want: wrong, wantL: "kernel setting is left as it is"},
		{name: "swap is refused", cfg: Config{FailSwapOn: true}, swaps: "/swapfile file 1048572 0 -2\n", err: "the machine swaps to /swapfile"},
		{name: "swap is allowed", swaps: "/swapfile file 1048572 0 -2\n"},
		{name: "no swap", cfg: Config{FailSwapOn: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			tt.cfg.Proc = proc(t, wrong, tt.swaps)
			tt.cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			err := New(tt.cfg).Prepare()
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error is %v, want one with %q", err, tt.err)
			}
			for name, want := range tt.want {
				got, err := os.ReadFile(filepath.Join(tt.cfg.Proc, "sys", name))
				if err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s is %q, %v; want %s", name, got, err, want)
				}
			}
			if !strings.Contains(log.String(), tt.wantL) {
				t.Errorf("the log has no %q:\n%s", tt.wantL, &log)
			}
		})
	}
}

// TestPrepareWithoutProc: what cannot be read is no reason not to start.
func TestPrepareWithoutProc(t *testing.T) {
	var log bytes.Buffer
	m := New(Config{FailSwapOn: true, Proc: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := m.Prepare(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "vm/panic_on_oom") {
		t.Errorf("the log does not name the settings:\n%s", &log)
	}
}

// TestProcess: this process may open as many files as it should, and says to the kernel how
// it is to be treated.
func TestProcess(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
	dir := proc(t, nil, "")
	if err := os.MkdirAll(filepath.Join(dir, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := before.Cur - 1
	if err := New(Config{Proc: dir, OOMScoreAdj: new(int32(-999)), MaxOpenFiles: want}).Prepare(); err != nil {
		t.Fatal(err)
	}
	var after syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &after); err != nil {
		t.Fatal(err)
	}
	if after.Cur != want || after.Max != before.Max {
		t.Errorf("limits of open files are %+v, want %d of %d", after, want, before.Max)
	}
	score, err := os.ReadFile(filepath.Join(dir, "self", "oom_score_adj"))
	if err != nil || string(score) != "-999" {
		t.Errorf("score is %q, %v; want -999", score, err)
	}
}

// TestProcessMayNot: what the kernel refuses is logged, and no reason not to start.
func TestProcessMayNot(t *testing.T) {
	var log bytes.Buffer
	m := New(Config{Proc: proc(t, nil, ""), OOMScoreAdj: new(int32(-999)), MaxOpenFiles: 1 << 62, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := m.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"oom_score_adj", "raise the limit of open files"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
}

func TestParseKill(t *testing.T) {
	tests := []struct {
		name, line string
		want       kill
		ok         bool
	}{
		{
			name: "of the whole machine",
			line: "6,1001,5000,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/kubepods/pod1/c,task=stress,pid=4242,uid=0\n",
			want: kill{"stress", 4242}, ok: true,
		},
		{
			name: "of a container",
			line: "6,1002,5000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=stress,pid=4242,uid=0",
			want: kill{"stress", 4242},
		},
		{
			name: "by the limit of the root",
			line: "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/,task_memcg=/a,task=my prog,pid=7,uid=0",
			want: kill{"my prog", 7}, ok: true,
		},
		{name: "of a NUMA node", line: "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=x,pid=8,uid=1", want: kill{"x", 8}, ok: true},
		{name: "the line before", line: "4,1000,5000,-;stress invoked oom-killer: gfp_mask=0x100cca, order=0, oom_score_adj=0"},
		{name: "no number", line: "oom-kill:constraint=CONSTRAINT_NONE,global_oom,task=x,pid=y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseKill(tt.line)
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("got %+v, %t; want %+v, %t", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func FuzzParseKill(f *testing.F) {
	f.Add("6,1001,5000,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/,task=stress,pid=4242,uid=0\n")
	f.Add("oom-kill:constraint=,oom_memcg=/,task==,pid=-1")
	f.Fuzz(func(t *testing.T, line string) {
		if k, ok := parseKill(line); ok && (k.process == "" || k.pid <= 0) {
			t.Errorf("took %+v", k)
		}
	})
}

// TestKillsAreTold reads a pipe in the place of the kernel's log.
func TestKillsAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	kernel, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan string, 10)
	ended := make(chan error, 1)
	m := New(Config{Kmsg: path, Proc: t.TempDir()})
	go func() {
		ended <- m.Run(ctx, func(eventType, reason, message string) { told <- eventType + " " + reason + " " + message })
	}()
	for _, line := range []string{
		"6,1,1,-;eth0: link up\n SUBSYSTEM=net\n",
		"6,2,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/kubepods,task_memcg=/kubepods/a,task=inner,pid=1,uid=0\n",
		"6,3,3,-;oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/,task=stress,pid=42,uid=0\n",
	} {
		if _, err := kernel.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case got := <-told:
		if diff := cmp.Diff("Warning SystemOOM System OOM encountered, victim process: stress, pid: 42", got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was told")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNoKernelLog: a machine that keeps its log to itself is no error.
func TestNoKernelLog(t *testing.T) {
	var log bytes.Buffer
	m := New(Config{Kmsg: filepath.Join(t.TempDir(), "none"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := m.Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "the kernel's log cannot be read") {
		t.Errorf("the log says %s", &log)
	}
}
