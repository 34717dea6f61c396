package podsource_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodekit-go/nodekit/podworker/podsource"
)

// ticker is an API server that has some pods and tells what a benchmark has it tell.
type ticker struct {
	pods   []corev1.Pod
	events chan watch.Event
}

func (s *ticker) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: s.pods}, nil
}

func (s *ticker) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) { return s, nil }

func (s *ticker) ResultChan() <-chan watch.Event { return s.events }
func (s *ticker) Stop()                          {}

// BenchmarkUpdateOneOf500 brings a new version of one pod, as of its status that this node
// has written, from the watch to who takes the pods of all sources.
func BenchmarkUpdateOneOf500(b *testing.B) {
	s := &ticker{events: make(chan watch.Event)}
	for i := range 500 {
		pod := newPod("pod-" + strconv.Itoa(i))
		pod.ResourceVersion = "1"
		s.pods = append(s.pods, *pod)
	}
	source, err := podsource.New(s, podsource.Config{Node: "node-a"})
	if err != nil {
		b.Fatal(err)
	}
	m, err := podsource.NewMerger(podsource.MergerConfig{}, podsource.API)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	delivered, ended := make(chan int), make(chan error)
	go func() {
		ended <- source.Run(ctx, func(set podsource.Set) { _ = m.Set(podsource.API, set.Pods) })
	}()
	go func() {
		ended <- m.Run(ctx, func(all podsource.Merged) { delivered <- len(all.Pods) })
	}()
	<-delivered
	versions := make([]*corev1.Pod, 500)
	for i := range versions {
		versions[i] = s.pods[i].DeepCopy()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		versions[i%500].ResourceVersion = fmt.Sprint(i + 2)
		s.events <- watch.Event{Type: watch.Modified, Object: versions[i%500]}
		if n := <-delivered; n != 500 {
			b.Fatalf("%d pods were delivered, want 500", n)
		}
	}
	b.StopTimer()
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}
