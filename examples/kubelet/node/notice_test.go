package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// deaf is a runtime without events.
type deaf struct{ node.Runtime }

// TestEndOfAContainerIsNoticed kills containers at all moments between two looks at the
// runtime.
func TestEndOfAContainerIsNoticed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events bool
		limit  time.Duration
	}{
		{"by the runtime's event", true, 200 * time.Millisecond},
		{"with every event dropped", false, 1500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				var all []string
				var pods []*corev1.Pod
				for i := range 10 {
					all = append(all, fmt.Sprint("web", i))
					pods = append(pods, newPod(all[i]))
				}
				m.manifests.write(pods...)
				k := m.start(t, func(c *node.Config) {
					dial := c.Dial
					c.Dial = func(ctx context.Context) (node.Runtime, error) {
						rt, err := dial(ctx)
						if err != nil || tc.events {
							return rt, err
						}
						return deaf{rt}, nil
					}
				})
				pass(5 * time.Second)
				for i, name := range all {
					pass(time.Duration(i) * 97 * time.Millisecond)
					if err := m.Exit("default/"+name, "app", runtimetest.Exit{Code: 1}); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					for k.app(name).State.Running != nil && k.app(name).RestartCount == 0 {
						pass(10 * time.Millisecond)
						if time.Since(began) > time.Minute {
							t.Fatalf("the end of %s is not noticed", name)
						}
					}
					if took := time.Since(began); took > tc.limit {
						t.Errorf("the end of %s is noticed after %s, want %s", name, took, tc.limit)
					}
				}
			})
		})
	}
}
