package podspec

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Labels and annotations the kubelet puts on sandboxes and containers. Tools such
// as crictl read them, and a kubelet that takes over recognises pods by them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationPorts                    = "io.kubernetes.container.ports"
	AnnotationDeletionGrace            = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationTerminationGrace         = "io.kubernetes.pod.terminationGracePeriod"
)

// Annotations of this project; other kubelets ignore them.
const (
	// AnnotationInstance on a sandbox is the id of the agent that made it.
	AnnotationInstance = "io.nodekit.instance"
	// AnnotationBackoff on a container is the crash back-off that applies if this
	// run ends early, as a duration. It keeps the back-off over a restart of the
	// agent.
	AnnotationBackoff = "io.nodekit.restart-backoff"
)

// ContainerHash returns the hash by which a kubelet knows whether a container was
// made from the spec it has: 32-bit FNV-1a over the name and the image, the two
// fields of a container that can change under a running pod. It has the format of
// [AnnotationHash].
func ContainerHash(c *corev1.Container) string {
	identity := make([]byte, 0, 64+len(c.Image)+len(c.Name))
	identity = append(identity, `{"image":`...)
	identity = appendJSON(identity, c.Image)
	identity = append(identity, `,"name":`...)
	identity = appendJSON(identity, c.Name)
	identity = append(identity, '}')
	text := make([]byte, 0, 16+4*len(identity))
	text = append(text, "([]uint8)["...)
	for i, b := range identity {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(b), 10)
	}
	h := fnv.New32a()
	_, _ = h.Write(append(text, ']')) // a hash never returns an error
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// appendJSON appends a string as encoding/json writes it. It is called for every
// container of every plan, so names and images of ordinary characters are quick.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 {
			quoted, _ := json.Marshal(s) // a string can always be encoded
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// PodLabels returns the labels by which a runtime object names its pod.
func PodLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{
		LabelPodName:      pod.Name,
		LabelPodNamespace: pod.Namespace,
		LabelPodUID:       string(pod.UID),
	}
}

func sandboxLabels(pod *corev1.Pod) map[string]string {
	out := make(map[string]string, len(pod.Labels)+3)
	maps.Copy(out, pod.Labels)
	maps.Copy(out, PodLabels(pod))
	return out
}

func sandboxAnnotations(pod *corev1.Pod, node *Node) map[string]string {
	out := make(map[string]string, len(pod.Annotations)+1)
	maps.Copy(out, pod.Annotations)
	if node.Instance != "" {
		out[AnnotationInstance] = node.Instance
	}
	return out
}

func containerLabels(pod *corev1.Pod, c *corev1.Container) map[string]string {
	out := PodLabels(pod)
	out[LabelContainerName] = c.Name
	return out
}

func containerAnnotations(pod *corev1.Pod, c *corev1.Container, run *Run) (map[string]string, error) {
	out := make(map[string]string, len(run.Extra.Annotations)+8)
	maps.Copy(out, run.Extra.Annotations)
	maps.Copy(out, map[string]string{
		AnnotationHash:                     ContainerHash(c),
		AnnotationRestartCount:             strconv.FormatUint(uint64(run.Attempt), 10),
		AnnotationTerminationMessagePath:   c.TerminationMessagePath,
		AnnotationTerminationMessagePolicy: string(c.TerminationMessagePolicy),
	})
	if run.Backoff >= 0 {
		out[AnnotationBackoff] = run.Backoff.Round(time.Millisecond).String()
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		out[AnnotationDeletionGrace] = strconv.FormatInt(*s, 10)
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[AnnotationTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if err := putJSON(out, AnnotationPreStopHandler, c.Lifecycle.PreStop); err != nil {
			return nil, err
		}
	}
	if len(c.Ports) > 0 {
		if err := putJSON(out, AnnotationPorts, c.Ports); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func putJSON(out map[string]string, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", key, err)
	}
	out[key] = strings.TrimSpace(string(raw))
	return nil
}
