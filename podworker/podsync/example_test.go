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
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// Example runs a pod on a runtime that lives in memory. On a node the client comes
// from runtime.Dial, and a podworker.Pool calls Sync.
func Example() {
	if err := runOnce(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Pulling: Pulling image "img.example/web:1"
	// Pulled
	// Created: Container created
	// Started: Container started
	// default/web is Running
}

func runOnce(ctx context.Context) error {
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
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "img.example/web:1"}}},
	}

	syncer, err := podsync.New(client, podsync.Config{
		Node: podspec.Node{
			Name: "node-a", Instance: "agent-1", Root: dir + "/kubelet", Logs: dir + "/logs",
			DNS: podspec.DNS{ClusterDNS: []string{"10.96.0.10"}},
		},
		OnEvent: func(_ *corev1.Pod, e podsync.Event) {
			if e.Reason == "Pulled" {
				e.Message = "" // it tells how long it took
				fmt.Println(e.Reason)
				return
			}
			fmt.Printf("%s: %s\n", e.Reason, e.Message)
		},
		OnStatus: func(pod *corev1.Pod, st corev1.PodStatus) {
			if st.Phase == corev1.PodRunning {
				fmt.Printf("%s/%s is %s\n", pod.Namespace, pod.Name, st.Phase)
			}
		},
	})
	if err != nil {
		return err
	}
	_, err = syncer.Sync(ctx, pod)
	return err
}

// fakeRuntime returns a client of a runtime in memory, and how to end both.
func fakeRuntime(ctx context.Context) (*runtime.Client, func(), error) {
	server, err := runtimetest.New(runtimetest.Config{})
	if err != nil {
		return nil, nil, err
	}
	if err := server.Up(); err != nil {
		return nil, nil, err
	}
	client, err := runtime.Dial(ctx, server.Endpoint(), runtime.Config{Dialer: server.DialContext})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return client, func() {
		_ = client.Close()
		server.Close()
	}, nil
}

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
