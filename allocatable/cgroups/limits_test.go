package cgroups_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// amounts makes a list of resources from pairs of name and quantity.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// guards are the files of version 2 for memory that is protected, and throttled.
func guards(least, low, high string) map[string]string {
	return map[string]string{"memory.min": least, "memory.low": low, "memory.high": high}
}

func TestLimitsOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("proxy", amounts("cpu", "100m"), nil)
	sidecar.RestartPolicy = &always
	base := cgroups.Limits{CPUShares: 2, CPUQuota: -1, CPUPeriod: 100000, Memory: -1, Pids: -1, Unified: guards("0", "0", "max")}
	with := func(edit func(*cgroups.Limits)) cgroups.Limits {
		l := base
		edit(&l)
		return l
	}
	tests := []struct {
		name  string
		spec  corev1.PodSpec
		class corev1.PodQOSClass
		rules cgroups.Rules
		want  cgroups.Limits
	}{
		{name: "best effort", class: corev1.PodQOSBestEffort, spec: corev1.PodSpec{Containers: []corev1.Container{container("a", nil, nil)}}, want: base},
		{
			name: "guaranteed", class: corev1.PodQOSGuaranteed,
			spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", amounts("cpu", "1", "memory", "1Gi"), amounts("cpu", "1", "memory", "1Gi")),
				container("b", amounts("cpu", "500m", "memory", "1Gi"), amounts("cpu", "500m", "memory", "1Gi")),
			}},
			want: with(func(l *cgroups.Limits) { l.CPUShares, l.CPUQuota, l.Memory = 1536, 150000, 2<<30 }),
		},
		{
			name: "one container without limits lifts those of the pod", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", amounts("cpu", "1"), amounts("cpu", "2", "memory", "1Gi")), container("b", nil, amounts("memory", "1Gi")),
			}},
			want: with(func(l *cgroups.Limits) { l.CPUShares, l.Memory = 1024, 2<<30 }),
		},
		{
			name: "resources of the pod", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: amounts("cpu", "2"), Limits: amounts("cpu", "3", "memory", "4Gi")},
				Containers: []corev1.Container{container("a", nil, nil)},
			},
			want: with(func(l *cgroups.Limits) { l.CPUShares, l.CPUQuota, l.Memory = 2048, 300000, 4<<30 }),
		},
		{
			name: "the largest init container, sidecars and overhead", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar, container("init", amounts("cpu", "2"), nil)},
				Containers:     []corev1.Container{container("a", amounts("cpu", "1"), nil)},
				Overhead:       amounts("cpu", "250m"),
			},
			want: with(func(l *cgroups.Limits) { l.CPUShares = 2406 }), // (2 + 0.1 + 0.25) × 1024
		},
		{
			name: "huge pages", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", amounts("cpu", "1", "hugepages-2Mi", "4Mi"), amounts("hugepages-2Mi", "4Mi")),
				container("b", amounts("hugepages-2Mi", "2Mi"), amounts("hugepages-2Mi", "2Mi")),
			}},
			want: with(func(l *cgroups.Limits) { l.CPUShares, l.HugePages = 1024, map[int64]int64{2 << 20: 6 << 20} }),
		},
		{
			name: "rules of the node", class: corev1.PodQOSGuaranteed,
			spec:  corev1.PodSpec{Containers: []corev1.Container{container("a", amounts("cpu", "1", "memory", "1Gi"), amounts("cpu", "1", "memory", "1Gi"))}},
			rules: cgroups.Rules{PodPids: 100, CPUPeriod: 10 * time.Millisecond, ReserveMemory: true, Throttling: 0.9},
			want: with(func(l *cgroups.Limits) {
				l.CPUShares, l.CPUQuota, l.CPUPeriod, l.Memory, l.Pids = 1024, 10000, 10000, 1<<30, 100
				l.Unified = guards("1073741824", "0", "max")
			}),
		},
		{
			name: "throttled pod", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: amounts("memory", "1Gi"), Limits: amounts("memory", "2Gi")},
				Containers: []corev1.Container{container("a", nil, nil)},
			},
			rules: cgroups.Rules{ReserveMemory: true, Throttling: 0.5, NoCPUQuota: true},
			want: with(func(l *cgroups.Limits) {
				l.Memory = 2 << 30
				l.Unified = guards("0", "1073741824", "1610612736")
			}),
		},
		{
			name: "throttled where every container has a limit", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: amounts("cpu", "1")},
				Containers: []corev1.Container{container("a", amounts("memory", "100Mi"), amounts("memory", "200Mi"))},
			},
			rules: cgroups.Rules{Throttling: 0.9},
			want: with(func(l *cgroups.Limits) {
				l.CPUShares, l.Memory, l.Unified = 1024, 200<<20, guards("0", "0", "199229440") // 190 MiB
			}),
		},
		{
			name: "whole pages", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Limits: amounts("memory", "10001")},
				Containers: []corev1.Container{container("a", nil, nil)},
			},
			rules: cgroups.Rules{Throttling: 0.9},
			want:  with(func(l *cgroups.Limits) { l.Memory, l.Unified = 10001, guards("0", "0", "8192") }),
		},
		{
			name: "no way from request to limit", class: corev1.PodQOSGuaranteed,
			spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: amounts("memory", "1Gi"), Limits: amounts("memory", "1Gi")},
				Containers: []corev1.Container{container("a", nil, nil)},
			},
			rules: cgroups.Rules{Throttling: 0.9},
			want:  with(func(l *cgroups.Limits) { l.Memory = 1 << 30 }),
		},
		{
			name: "tiny and huge", class: corev1.PodQOSBurstable,
			spec: corev1.PodSpec{Containers: []corev1.Container{container("a", amounts("cpu", "1000"), amounts("cpu", "1m"))}},
			want: with(func(l *cgroups.Limits) { l.CPUShares, l.CPUQuota = 262144, 1000 }),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := cgroups.LimitsOf(&corev1.Pod{Spec: tt.spec}, tt.class, tt.rules)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
