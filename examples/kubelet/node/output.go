package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/runtime/logs"
)

// output writes what the containers of a pod print, each line in one piece. With more
// than one container each line begins with the name of its container.
type output struct {
	root, dir string
	prefix    bool

	mu  sync.Mutex // guards out and what has ended
	out io.Writer
	// runs are the runs of containers that are read, with what ends them.
	runs    map[string]context.CancelFunc
	ctx     context.Context //nolint:containedctx // of the readers that follow starts
	readers sync.WaitGroup
}

func newOutput(ctx context.Context, out io.Writer, node *podspec.Node, pod *corev1.Pod) *output {
	return &output{
		root: node.Logs, dir: filepath.Base(node.LogDir(pod)), prefix: len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 1,
		out: out, runs: map[string]context.CancelFunc{}, ctx: ctx,
	}
}

// follow reads the logs of the containers of a status from now on.
func (o *output) follow(status *corev1.PodStatus) {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			o.followContainer(&list[i])
		}
	}
}

func (o *output) followContainer(c *corev1.ContainerStatus) {
	if c.ContainerID == "" {
		return
	}
	run := c.Name + "/" + strconv.Itoa(int(c.RestartCount))
	done, known := o.runs[run]
	if !known {
		ended, cancel := context.WithCancel(o.ctx)
		done, o.runs[run] = cancel, cancel
		file := logs.File{Root: o.root, Path: filepath.Join(o.dir, c.Name, strconv.Itoa(int(c.RestartCount))+".log")}
		o.readers.Go(func() { o.read(o.ctx, ended, c.Name, file) })
	}
	if c.State.Running == nil {
		done()
	}
}

// read writes a log until its container has ended and all of it is written.
func (o *output) read(ctx, ended context.Context, container string, file logs.File) {
	running := func(context.Context) (bool, error) { return ended.Err() == nil, nil } //nolint:unparam // of logs.Options
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(logs.Copy(ctx, w, file, logs.Options{Follow: true, Running: running}))
	}()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			o.write(container, line)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
				o.write(container, fmt.Sprintf("[log: %v]\n", err))
			}
			return
		}
	}
}

func (o *output) write(container, line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.prefix {
		line = "[" + container + "] " + line
	}
	_, _ = io.WriteString(o.out, line) // who runs the pod has gone; it is run to its end all the same
}

// wait returns when all that was printed is written.
func (o *output) wait() {
	for _, ended := range o.runs {
		ended()
	}
	o.readers.Wait()
}
