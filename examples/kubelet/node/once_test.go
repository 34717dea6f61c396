package node_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/staticpods"
)

// onceConfig is that of a node for one pod on the machine.
func (m *machine) onceConfig() node.Config {
	sockets := newPipes()
	return node.Config{
		Kubelet: &kubeletconfig.KubeletConfiguration{PodLogsDir: filepath.Join(m.root, "..", "once-logs"), HealthzPort: new(int32), EnableServer: new(false)},
		Name:    "once", Root: filepath.Join(m.root, "..", "once"),
		Log:     slog.New(slog.NewTextHandler(m.log, nil)),
		Host:    &podspec.Node{IPs: []string{"10.0.0.2"}},
		Cgroups: podsync.CgroupDirs{},
		Dial: func(ctx context.Context) (node.Runtime, error) {
			c, err := runtime.Dial(ctx, m.Endpoint(), runtime.Config{Dialer: m.DialContext})
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Listen: func(context.Context, string, string) (net.Listener, error) { return sockets, nil },
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// onceJob is a pod whose container is called once.
func onceJob() *corev1.Pod {
	pod := newPod("job")
	pod.Spec.Containers[0].Name = "once"
	return pod
}

func TestRunOnceEndsWithThePod(t *testing.T) {
	for _, code := range []int32{0, 7} {
		onMachine(t, func(m *machine) {
			t := m.t
			m.manifests.write(newPod("other"))
			m.start(t) // another agent, whose pods are left alone
			pass(3 * time.Second)
			before := m.containers(t)
			m.SetLives("once", runtimetest.Life{
				Log:  []runtimetest.LogLine{{Text: "hello"}, {After: 2 * time.Second, Text: "bye"}},
				Exit: &runtimetest.Exit{After: 3 * time.Second, Code: code},
			})
			var out safeBuffer
			got, err := node.RunOnce(t.Context(), m.onceConfig(), staticpods.Manifest{Pod: onceJob()}, &out)
			if err != nil || got != code {
				t.Errorf("RunOnce returned %d, %v, want %d", got, err, code)
			}
			if out.String() != "hello\nbye\n" {
				t.Errorf("it printed %q", out.String())
			}
			for _, left := range m.left(t) {
				if strings.Contains(left, "job") {
					t.Errorf("%s is left", left)
				}
			}
			if len(m.containers(t)) != len(before) {
				t.Errorf("containers before %v, after %v", before, m.containers(t))
			}
		})
	}
}

func TestRunOnceStopsWithItsUser(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := node.RunOnce(ctx, m.onceConfig(), staticpods.Manifest{Pod: newPod("job")}, io.Discard)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunOnce returned %v", err)
		}
		if left := m.left(t); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
}

func TestRunOnceSaysWhyAPodDidNotRun(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		bad := newPod("bad")
		bad.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"},
		}}}
		_, err := node.RunOnce(t.Context(), m.onceConfig(), staticpods.Manifest{Pod: bad}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "persistentVolumeClaim") {
			t.Errorf("RunOnce returned %v, want the field", err)
		}
	})
}

func TestPlanSaysWhatWouldBeDone(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		n, err := node.New(m.onceConfig())
		if err != nil {
			t.Fatal(err)
		}
		m.ForgetCalls()
		pod := newPod("web")
		pod.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: shell}}
		actions, err := n.Plan(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"run sandbox, attempt 0: no pod sandbox exists", "setup"} {
			if !strings.Contains(actions.String(), want) {
				t.Errorf("the plan does not say %q:\n%s", want, actions)
			}
		}
		changes := slices.DeleteFunc(m.Changes(), func(c string) bool { return c == "RuntimeConfig" }) // a question
		if len(changes) > 0 {
			t.Errorf("a plan has changed something: %q", changes)
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"},
		}}}
		if _, err := n.Plan(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "persistentVolumeClaim") {
			t.Errorf("Plan of a pod that is refused: %v", err)
		}
	})
}
