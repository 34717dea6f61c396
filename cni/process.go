package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
)

const (
	// maxOutput is far above any result; a plugin that prints more is stopped.
	maxOutput = 4 << 20
	// maxStderr is how much of the end of the standard error is kept.
	maxStderr = 4 << 10
	// leaveOpen is how long the output may stay open after the plugin's end, by a
	// process that it left behind.
	leaveOpen = 2 * time.Second
	// busyPause is the time between attempts to start a program that is being written.
	busyPause = 20 * time.Millisecond
)

// processes runs plugins as processes. It implements invoke.Exec.
type processes struct {
	version.PluginDecoder
	log *slog.Logger
	// inherit is passed to each process, nil for none: its lock lasts as long as any
	// of them.
	inherit *os.File
	// ready returns when plugins may act, or why they may not; nil is at once. It is
	// waited for while the process starts.
	ready func() error
}

var _ invoke.Exec = (*processes)(nil)

// FindInPath implements invoke.Exec.
func (p *processes) FindInPath(name string, dirs []string) (string, error) {
	missing := &missingError{name: name, dirs: dirs}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			missing.found = err.Error()
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			missing.found = fmt.Sprintf("%s is no executable file (%s)", path, info.Mode())
		default:
			return path, nil
		}
	}
	return "", missing
}

// ExecPlugin implements invoke.Exec. It returns a *PluginError that lacks the
// names of the network, the plugin and the command. The process gets its own group,
// all of which is killed when ctx ends.
func (p *processes) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for {
		in := &input{ready: p.ready, stop: stop, data: stdin}
		stdout, stderr := &limited{max: maxOutput}, &tail{max: maxStderr}
		cmd := exec.CommandContext(ctx, path)
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, in, stdout, stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = leaveOpen
		if p.inherit != nil {
			cmd.ExtraFiles = []*os.File{p.inherit}
		}
		err := cmd.Start()
		if errors.Is(err, syscall.ETXTBSY) && pause(ctx, busyPause) {
			continue
		}
		if err != nil {
			return nil, &PluginError{Path: path, Err: fmt.Errorf("start %s: %w", path, err), idle: true}
		}
		err = cmd.Wait()
		if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
			err = nil // what it left behind is not waited for
		}
		if err != nil {
			e := failure(ctx, path, err, stdout, stderr)
			e.idle = in.refused
			return nil, e
		}
		p.log.Debug("plugin done", "path", path, "stderr", stderr.String())
		return stdout.data, nil
	}
}

// input is the configuration on its way to a plugin.
type input struct {
	ready   func() error
	stop    context.CancelCauseFunc
	data    []byte
	refused bool
}

// WriteTo implements io.WriterTo. A plugin that may not act is stopped before it has
// read anything.
func (i *input) WriteTo(w io.Writer) (int64, error) {
	if i.ready != nil {
		if err := i.ready(); err != nil {
			i.refused = true
			i.stop(err)
			return 0, err
		}
	}
	n, err := w.Write(i.data)
	return int64(n), err
}

// Read makes it the io.Reader that package exec wants; it copies by WriteTo.
func (i *input) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// pause reports whether ctx lasted so long.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// failure reads what a plugin that failed has printed.
func failure(ctx context.Context, path string, err error, stdout *limited, stderr *tail) *PluginError {
	e := &PluginError{Path: path, Stderr: stderr.String()}
	switch cause := context.Cause(ctx); {
	case stdout.over:
		e.Err = fmt.Errorf("%w: more than %d bytes", ErrBadOutput, maxOutput)
		return e
	case cause != nil:
		e.Err = cause
		return e
	}
	var object struct {
		Code         uint
		Msg, Details string
	}
	out := bytes.TrimSpace(stdout.data)
	switch bad := json.Unmarshal(out, &object); {
	case bad == nil && (object.Code != 0 || object.Msg != ""):
		e.Code, e.Msg, e.Details = object.Code, object.Msg, object.Details
		return e
	case len(out) > 0:
		err = fmt.Errorf("%w: %w %.200q", err, ErrBadOutput, out)
	}
	e.Err = err
	return e
}

// limited keeps what is written to it, up to a limit, which makes it fail.
type limited struct {
	max  int
	data []byte
	over bool
}

// ReadFrom implements io.ReaderFrom.
func (l *limited) ReadFrom(r io.Reader) (int64, error) {
	for {
		l.data = slices.Grow(l.data, 1<<10)
		n, err := r.Read(l.data[len(l.data):cap(l.data)])
		l.data = l.data[:len(l.data)+n]
		if l.over = len(l.data) > l.max; l.over {
			return int64(len(l.data)), fmt.Errorf("more than %d bytes", l.max)
		}
		if errors.Is(err, io.EOF) {
			return int64(len(l.data)), nil
		}
		if err != nil {
			return int64(len(l.data)), err
		}
	}
}

// Write makes it the io.Writer that package exec wants; it copies by ReadFrom.
func (l *limited) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// tail keeps the end of what is written to it.
type tail struct {
	max  int
	data []byte
}

// ReadFrom implements io.ReaderFrom.
func (t *tail) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		t.data = slices.Grow(t.data, 512)
		n, err := r.Read(t.data[len(t.data):cap(t.data)])
		t.data, total = t.data[:len(t.data)+n], total+int64(n)
		if over := len(t.data) - t.max; over > 0 {
			t.data = append(t.data[:0], t.data[over:]...)
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Write makes it the io.Writer that package exec wants; it copies by ReadFrom.
func (t *tail) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (t *tail) String() string { return string(bytes.TrimSpace(t.data)) }
