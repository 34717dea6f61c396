package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const running = runtimeapi.ContainerState_CONTAINER_RUNNING

// instance is a running container, as the runtime knows it.
type instance struct {
	id      string
	pid     int
	started time.Time
}

// snapshot is the running containers by the name of their pod.
type snapshot map[string]instance

// look asks the runtime, not the kubelet, what runs.
func (d *demo) look(ctx context.Context) (snapshot, error) {
	cri := d.node.CRI()
	list, err := cri.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: running}},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	shot := snapshot{}
	for _, container := range list.GetContainers() {
		status, err := cri.ContainerStatus(ctx, container.GetId())
		if err != nil {
			return nil, err
		}
		pid, err := cri.ContainerPID(ctx, container.GetId())
		if err != nil {
			return nil, err
		}
		shot[container.GetLabels()["io.kubernetes.pod.name"]] = instance{
			id: container.GetId(), pid: pid, started: time.Unix(0, status.GetStartedAt()),
		}
	}
	return shot, nil
}

// forgotten returns an error as long as the runtime has something of a pod, if only dead.
func (d *demo) forgotten(ctx context.Context, pod string) error {
	list, err := d.node.CRI().Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.name": pod}},
	})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	if left := list.GetItems(); len(left) > 0 {
		return fmt.Errorf("it has %s", short(left[0].GetId()))
	}
	return nil
}

// changes says how the other snapshot differs; it is empty when the same
// containers run as the same processes since the same time.
func (s snapshot) changes(now snapshot) string {
	var texts []string
	for _, pod := range slices.Sorted(maps.Keys(s)) {
		before, after := s[pod], now[pod]
		switch {
		case after.id == "":
			texts = append(texts, pod+" does not run any more")
		case before != after:
			texts = append(texts, fmt.Sprintf("%s was container %s process %d and is container %s process %d",
				pod, short(before.id), before.pid, short(after.id), after.pid))
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(now)) {
		if _, known := s[pod]; !known {
			texts = append(texts, pod+" is new")
		}
	}
	return strings.Join(texts, "\n")
}

// rows returns a table of the snapshot.
func (s snapshot) rows() []string {
	rows := []string{"pod\tcontainer\tprocess\tstarted"}
	for _, pod := range slices.Sorted(maps.Keys(s)) {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%s",
			pod, short(s[pod].id), s[pod].pid, s[pod].started.UTC().Format("15:04:05.000")))
	}
	return rows
}
