//go:build linux

package volume_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// five returns a pod with one volume of each common kind.
func five(i int) *corev1.Pod {
	return pod(fmt.Sprint(i), emptyDir("cache"), configMap("conf", "conf"), secret("key", "key"),
		source("info", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}}),
		projected(
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}},
		))
}

func forAll(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func benchManager(b *testing.B) (*volume.Manager, *objects) {
	b.Helper()
	needsMounts(b)
	var o objects
	o.setConfigMap("conf", map[string]string{"app.ini": "1", "log.ini": "2", "ca.crt": "3"})
	o.setSecret("key", map[string]string{"tls.key": "1", "tls.crt": "2"})
	return newManager(b, volume.Config{Objects: &o, Tokens: tokens{token: "jwt"}}), &o
}

// BenchmarkSetUpAndTearDown sets up 100 pods with five volumes each, all at once, sets them up
// again with nothing to do, and tears them down.
func BenchmarkSetUpAndTearDown(b *testing.B) {
	const pods = 100
	m, _ := benchManager(b)
	list := make([]*corev1.Pod, pods)
	for i := range list {
		list[i] = five(i)
	}
	all := func(what string, do func(i int) error) {
		begin := time.Now()
		forAll(pods, func(i int) {
			if err := do(i); err != nil {
				b.Error(err)
			}
		})
		b.ReportMetric(float64(time.Since(begin).Microseconds())/1000, what+"-ms")
	}
	for b.Loop() {
		all("setup", func(i int) error { _, err := m.SetUp(b.Context(), list[i]); return err })
		all("again", func(i int) error { _, err := m.SetUp(b.Context(), list[i].DeepCopy()); return err })
		all("teardown", func(i int) error { return m.TearDown(b.Context(), types.UID(fmt.Sprint(i))) })
	}
}

// BenchmarkUpdate changes a ConfigMap that 500 pods mount: how long until the last of them
// shows it.
func BenchmarkUpdate(b *testing.B) {
	const pods = 500
	m, o := benchManager(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	paths := make([]string, pods)
	forAll(pods, func(i int) { paths[i] = setUp(b, m, pod(fmt.Sprint(i), configMap("v", "conf")))["v"] })
	for n := 0; b.Loop(); n++ {
		want := fmt.Sprint("update ", n)
		o.setConfigMap("conf", map[string]string{"app.ini": want, "log.ini": "2", "ca.crt": "3"})
		m.Changed(conf())
		for _, path := range paths {
			for {
				if data, err := os.ReadFile(path + "/app.ini"); err == nil && string(data) == want {
					break
				}
				<-time.After(time.Millisecond)
			}
		}
	}
	cancel()
	running.Wait()
}
