package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// bench is a cluster to measure kubelets in.
type bench struct {
	settings
	cluster *cluster.Cluster
	client  kubernetes.Interface
}

func newBench(c *cluster.Cluster, s settings) (*bench, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.Dial = c.Plane().Dial
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return &bench{settings: s, cluster: c, client: client}, err
}

// side is one of the two kubelets.
type side struct {
	*cluster.Node
	*bench
	source cluster.Source
}

// addSide makes a node; prepare is called before its kubelet starts.
func (b *bench) addSide(ctx context.Context, source cluster.Source, cfg cluster.NodeConfig, prepare func(*side) error) (*side, error) {
	cfg.Kubelet, cfg.Proxy = cluster.None, cluster.None
	n, err := b.cluster.AddNode(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &side{n, b, source}
	if err := prepare(s); err != nil {
		return nil, err
	}
	n.UseKubelet(source)
	if err := n.Kubelet().Start(ctx); err != nil {
		return nil, err
	}
	if err := n.WaitReady(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, source, "kubelet is ready on", n.NodeName())
	return s, nil
}

// makePods creates pods like template on the node, one after the other, and returns when
// each became ready, counted from the first creation.
func (s *side) makePods(ctx context.Context, count int, template *corev1.Pod) ([]time.Duration, error) {
	changes, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { changes.Stop() }()
	began := time.Now()
	failed := make(chan error, 1)
	go func() { failed <- s.create(ctx, count, template) }()
	ready := map[string]time.Duration{}
	limit := time.After(15 * time.Minute)
	for len(ready) < count {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit:
			return nil, fmt.Errorf("%s: %d of %d pods are ready", s.source, len(ready), count)
		case err := <-failed:
			if err != nil {
				return nil, err
			}
			failed = nil
		case e, ok := <-changes.ResultChan():
			if !ok { // API servers end watches when they like; the next one begins with all pods
				if changes, err = s.watch(ctx); err != nil {
					return nil, err
				}
				continue
			}
			if pod, ok := e.Object.(*corev1.Pod); ok && isReady(pod) && ready[pod.Name] == 0 {
				ready[pod.Name] = time.Since(began)
			}
		}
	}
	var all []time.Duration
	for _, d := range ready {
		all = append(all, d)
	}
	return all, nil
}

// watch watches the pods of the node.
func (s *side) watch(ctx context.Context) (watch.Interface, error) {
	return s.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.NodeName()).String(),
	})
}

func (s *side) create(ctx context.Context, count int, template *corev1.Pod) error {
	for i := range count {
		pod := template.DeepCopy()
		pod.Name = fmt.Sprintf("%s-%s-%d", template.Name, s.NodeName(), i)
		pod.Spec.NodeName = s.NodeName()
		if _, err := s.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// removePods deletes all pods of the node and waits until they are gone.
func (s *side) removePods(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	mine := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.NodeName()).String()}
	if err := s.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, mine); err != nil {
		return 0, err
	}
	err := testnode.Eventually(ctx, 10*time.Minute, s.source.String()+": the pods are gone", func(ctx context.Context) error {
		list, err := s.client.CoreV1().Pods("default").List(ctx, mine)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
	return time.Since(began), err
}

// template returns a pod of one container that has nothing of the API server.
func template(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "app", Image: image, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

// use is what a process has used so far.
type use struct {
	cpu    time.Duration
	memory int64 // resident, in bytes
}

// kubeletUse reads it from /proc (proc_pid_stat(5)).
func (s *side) kubeletUse() (use, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Kubelet().PID()))
	if err != nil {
		return use{}, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // the first one is number 3 of the manual
	var n [3]int64
	for i, field := range []int{14, 15, 24} {
		if n[i], err = strconv.ParseInt(fields[field-3], 10, 64); err != nil {
			return use{}, err
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux port
	return use{cpu: time.Duration(n[0]+n[1]) * tick, memory: n[2] * int64(os.Getpagesize())}, nil
}
