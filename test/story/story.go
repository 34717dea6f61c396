package story

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// Story is one life of a pod.
type Story struct {
	// About says what the story shows.
	About string
	// Pod is the pod at the beginning.
	Pod *corev1.Pod
	// Lives has how each run of a container lives, by its name.
	Lives map[string][]runtimetest.Life
	// Probes has what the probes of a container find.
	Probes []Probe
	// Steps are what happens, in order.
	Steps []Step
	// Until is when the story ends.
	Until time.Duration
	// Expect has one sentence per line, Want what happened when it was last told.
	Expect, Want string

	archive *txtar.Archive
}

// Probe is what the probe of a kind finds in the runs of a container.
type Probe struct {
	Container string
	// Kind is startup, liveness or readiness.
	Kind string
	// Runs has what it finds, run by run; the last one repeats.
	Runs []Finding
}

// Finding is the result of a probe some time after the start of a container.
type Finding struct {
	// Success is false for a failure, Never for a probe that finds nothing.
	Success, Never bool
	After          time.Duration
}

// Step is something that happens at a time:
//
//	delete [D]          the pod is deleted, with a grace period
//	remove              the pod vanishes from its source
//	image NAME REF      a container gets another image
//	deadline D          activeDeadlineSeconds changes
//	restart agent       the agent is killed and comes back
//	reboot              so is the runtime, and every container has died
//	kill sandbox        the sandbox dies
//	lose NAME           the runtime forgets the runs of a container
//	debug NAME          an ephemeral container is added
//	end NAME CODE       a container exits by itself
type Step struct {
	At   time.Duration
	Verb string
	Args []string
}

// String returns the step as it is written.
func (s Step) String() string {
	return strings.TrimSpace(s.Verb + " " + strings.Join(s.Args, " "))
}

// Parse reads a story.
func Parse(data []byte) (*Story, error) {
	s := &Story{archive: txtar.Parse(data), Lives: map[string][]runtimetest.Life{}, Until: time.Minute}
	s.About = strings.TrimSpace(string(s.archive.Comment))
	for _, f := range s.archive.Files {
		var err error
		switch f.Name {
		case "pod.yaml":
			s.Pod = &corev1.Pod{}
			err = yaml.UnmarshalStrict(f.Data, s.Pod)
		case "script":
			err = s.script(string(f.Data))
		case "expect":
			s.Expect = string(f.Data)
		case "story":
			s.Want = string(f.Data)
		default:
			err = fmt.Errorf("no story has a file of this name")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if s.Pod == nil {
		return nil, fmt.Errorf("the story has no pod.yaml")
	}
	complete(s.Pod)
	return s, nil
}

// complete fills in what the API server would.
func complete(pod *corev1.Pod) {
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.Name == "" {
		pod.Name = "pod"
	}
	if pod.UID == "" {
		pod.UID = "uid-1"
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = Image
			}
		}
	}
}

// Image is the image of containers that name none, Broken one that cannot be had.
const (
	Image  = "img.example/shell:1"
	Broken = "img.example/broken:1"
)

// Format returns the archive with another outcome.
func (s *Story) Format(outcome string) []byte {
	for i := range s.archive.Files {
		if s.archive.Files[i].Name == "story" {
			s.archive.Files[i].Data = []byte(outcome)
			return txtar.Format(s.archive)
		}
	}
	s.archive.Files = append(s.archive.Files, txtar.File{Name: "story", Data: []byte(outcome)})
	return txtar.Format(s.archive)
}
