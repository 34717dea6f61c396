package testnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a program that runs on a node.
type Process struct {
	// Name is what the program is called in messages and by its log file.
	Name string
	// Log is the file with everything the program prints. A restart appends.
	Log string

	cmd  *exec.Cmd
	done chan struct{} // Closed when the program ended; then err is set.
	err  error
}

// Command returns a command that runs a program inside the node's namespaces, by
// nsenter(1). On an isolated node its working directory is the root.
func (n *Node) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", n.enter(program, args)...)
	cmd.Env = environment()
	return cmd
}

// enter returns the arguments of nsenter(1) that run a program on the node.
func (n *Node) enter(program string, args []string) []string {
	options := []string{"--net=" + n.lay.namespace()}
	if n.mounts != "" {
		options = append(options, "--mount="+n.mounts)
	}
	return append(append(options, "--", program), args...)
}

// environment is ours, with the folders in PATH that hold runc and iptables and
// that a user's PATH often lacks.
func environment() []string { return append(os.Environ(), "PATH="+searchPath()) }

func searchPath() string { return os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin" }

// StartProcess starts a program on the node, in a process group of its own so
// that an interrupt at the terminal reaches only us, and returns at once. What it
// prints goes to the file <name>.log in the folder of logs.
func (n *Node) StartProcess(name, program string, args ...string) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(n.cfg.Logs, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p := &Process{Name: name, Log: log.Name(), done: make(chan struct{})}
	// The process outlives this call, so no caller's context may end it; Kill,
	// Terminate and Node.Stop do.
	p.cmd = exec.Command("nsenter", n.enter(program, args)...)
	p.cmd.Env = append(environment(), nameVariable+"="+n.Name())
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	n.processes.Go(func() {
		p.err = p.cmd.Wait()
		close(p.done)
	})
	return p, nil
}

// PID returns the process id: nsenter becomes the program it starts.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited reports whether the program has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the program with SIGKILL and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.done
	return nil
}

// Terminate sends SIGTERM and waits. It returns an error when the program does
// not end within the time limit or ends with another exit code than 0.
func (p *Process) Terminate(limit time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		return fmt.Errorf("terminate %s: it still runs %s after SIGTERM", p.Name, limit)
	}
	if p.err != nil {
		return fmt.Errorf("terminate %s: %w", p.Name, p.err)
	}
	return nil
}
