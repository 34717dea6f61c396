package podsync

import corev1 "k8s.io/api/core/v1"

// Event is something a user of the pod wants to know. Reasons and messages are the
// kubelet's.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one word such as "Started".
	Reason string
	// Message is for people.
	Message string
	// Container is the container the event is about, empty for the pod as a whole.
	Container string
}

func (s *Syncer) normal(pod *corev1.Pod, container, reason, message string) {
	s.event(pod, Event{Type: corev1.EventTypeNormal, Container: container, Reason: reason, Message: message})
}

func (s *Syncer) warning(pod *corev1.Pod, container, reason, message string) {
	s.event(pod, Event{Type: corev1.EventTypeWarning, Container: container, Reason: reason, Message: message})
}

func (s *Syncer) event(pod *corev1.Pod, e Event) {
	if s.cfg.OnEvent != nil {
		s.cfg.OnEvent(pod, e)
	}
}
