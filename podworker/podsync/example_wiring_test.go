package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/probes"
)

// ExampleConfig_probesAndVolumes runs a pod that has an emptyDir and a readiness probe.
func ExampleConfig_probesAndVolumes() {
	if err := runReady(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: default/web is ready
}

// node has the parts of an agent that depend on each other.
type node struct {
	engine  *probes.Engine
	clients probes.Clients
	volumes *volume.Manager
	began   time.Time
	ready   func(pod *corev1.Pod)
}

// ProbeResult makes node a podstatus.Prober. Of a container that the engine does not know
// yet, the last status holds.
func (n *node) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	values, _ := n.engine.Values(id)
	value := map[podstatus.Probe]probes.Outcome{
		podstatus.Startup: values.Startup, podstatus.Liveness: values.Liveness, podstatus.Readiness: values.Readiness,
	}[kind]
	return map[probes.Outcome]podstatus.Result{
		probes.Success: podstatus.Success, probes.Failure: podstatus.Failure,
	}[value]
}

// SetUp and TearDown make node a podsync.Volumes.
func (n *node) SetUp(ctx context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	mounted, err := n.volumes.SetUp(ctx, pod)
	out := map[string]podspec.Volume{}
	for name, v := range mounted {
		out[name] = podspec.Volume{Path: v.Path, Block: v.Block, ReadOnly: v.ReadOnly, Relabel: v.Relabel, Group: v.Group}
	}
	return out, err
}

func (n *node) TearDown(ctx context.Context, uid types.UID) error {
	return n.volumes.TearDown(ctx, uid)
}

// onStatus has the containers that run probed. What runs is in the status, which the pod
// itself does not carry.
func (n *node) onStatus(pod *corev1.Pod, st corev1.PodStatus) {
	pod = pod.DeepCopy()
	pod.Status = st
	containers, err := probes.FromPod(pod, probes.PodConfig{Clients: n.clients, AgentStart: n.began})
	if err = errors.Join(err, n.engine.Set(pod.UID, containers)); err != nil {
		fmt.Println(err)
	}
	n.ready(pod)
}

func runReady(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "podsync")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, closeAll, err := fakeRuntime(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var once sync.Once
	n := &node{clients: probes.Clients{Exec: probes.ExecIn(client)}, began: time.Now(), ready: func(pod *corev1.Pod) {
		if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready {
			once.Do(func() { fmt.Printf("%s/%s is ready\n", pod.Namespace, pod.Name) })
			cancel()
		}
	}}

	var pool *podworker.Pool
	n.engine, err = probes.New(probes.Config{Hooks: probes.Hooks{
		Changed: func(c probes.Change) { pool.Wake(c.Ref.UID) },
	}})
	if err != nil {
		return err
	}
	n.volumes, err = volume.New(volume.Config{Root: dir + "/kubelet"})
	if err != nil {
		return err
	}
	syncer, err := podsync.New(client, podsync.Config{
		Node:     podspec.Node{Name: "node-a", Instance: "agent-1", Root: dir + "/kubelet", Logs: dir + "/logs"},
		Prober:   n,
		Parts:    podsync.Parts{Volumes: n},
		OnStatus: n.onStatus,
	})
	if err != nil {
		return err
	}
	pool, err = podworker.New(syncer, podworker.Config{})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { _ = n.engine.Run(ctx) })
	all.Go(func() { _ = n.volumes.Run(ctx) })
	pool.Update(probedPod())
	err = pool.Run(ctx)
	all.Wait()
	return err
}

func probedPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "app", Image: "img.example/web:1",
				VolumeMounts:   []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1},
			}},
		},
	}
}
