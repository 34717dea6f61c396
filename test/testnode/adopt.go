package testnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// adoptFile tells of an adopted runtime.
const adoptFile = "adopted"

// adoption is what a node knows of the runtime it adopted.
type adoption struct {
	// Socket is where the runtime listens.
	Socket string
	// Since is when the runtime was adopted: pods made before are not the node's.
	Since time.Time
}

// adoption reads what the node's folder tells of an adopted runtime; without there is none.
func (l layout) adoption() (adoption, bool) {
	data, err := os.ReadFile(l.path(adoptFile))
	if err != nil {
		return adoption{}, false
	}
	var a adoption
	return a, json.Unmarshal(data, &a) == nil
}

// adopt takes over the namespaces of the process that listens at the runtime's socket.
func (n *Node) adopt(ctx context.Context) error {
	pid, err := peer(ctx, n.cfg.Adopt)
	if err != nil {
		return fmt.Errorf("adopt runtime: %w", err)
	}
	data, err := json.Marshal(adoption{Socket: n.cfg.Adopt, Since: time.Now()})
	if err == nil {
		err = os.WriteFile(n.lay.path(adoptFile), data, 0o600)
	}
	if err == nil {
		err = os.WriteFile(n.lay.namespace(), nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("adopt runtime: %w", err)
	}
	proc := fmt.Sprintf("/proc/%d/ns", pid)
	if err := unix.Mount(filepath.Join(proc, "net"), n.lay.namespace(), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("adopt network namespace of process %d: %w", pid, err)
	}
	same, err := sameNamespace(filepath.Join(proc, "mnt"), "/proc/self/ns/mnt")
	if err != nil || same {
		return err
	}
	err = n.lay.makePins()
	if err == nil {
		err = unix.Mount(filepath.Join(proc, "mnt"), n.lay.mountNamespace(), "", unix.MS_BIND, "")
	}
	if err != nil {
		return fmt.Errorf("adopt mount namespace of process %d: %w", pid, err)
	}
	n.mounts = n.lay.mountNamespace()
	return nil
}

// peer returns the process that listens at a unix socket.
func peer(ctx context.Context, socket string) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var (
		credentials *unix.Ucred
		sockErr     error
	)
	err = raw.Control(func(fd uintptr) {
		credentials, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, sockErr); err != nil {
		return 0, fmt.Errorf("find who listens at %s: %w", socket, err)
	}
	return int(credentials.Pid), nil
}

func sameNamespace(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, fmt.Errorf("look at namespace: %w", err)
	}
	second, err := os.Stat(b)
	if err != nil {
		return false, fmt.Errorf("look at namespace: %w", err)
	}
	return os.SameFile(first, second), nil
}

// awaitRuntime connects to the adopted runtime.
func (n *Node) awaitRuntime(ctx context.Context) error {
	var err error
	if n.cri, err = dialCRI(n.cfg.Adopt); err != nil {
		return err
	}
	return Eventually(ctx, 30*time.Second, "the runtime at "+n.cfg.Adopt+" is ready", n.cri.ready)
}

// removeAdoptedPods removes the pods that an adopted runtime got since, after the
// programs that would make them anew.
func (l layout) removeAdoptedPods(ctx context.Context) error {
	adopted, ok := l.adoption()
	if !ok {
		return nil
	}
	pids, err := l.markedProcesses()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	if _, err := os.Stat(adopted.Socket); errors.Is(err, fs.ErrNotExist) {
		return nil // The runtime is gone, and so are its pods.
	}
	cri, err := dialCRI(adopted.Socket)
	if err != nil {
		return err
	}
	defer cri.conn.Close()
	list, err := cri.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list pods of the adopted runtime: %w", err)
	}
	var errs []error
	for _, sandbox := range list.GetItems() {
		if sandbox.GetCreatedAt() < adopted.Since.UnixNano() {
			continue
		}
		_, stopErr := cri.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox.GetId()})
		_, err := cri.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.GetId()})
		if err = errors.Join(stopErr, err); err != nil {
			errs = append(errs, fmt.Errorf("remove pod %s of the adopted runtime: %w", sandbox.GetMetadata().GetName(), err))
		}
	}
	return errors.Join(errs...)
}
