package runtimetest

import (
	"fmt"
	"slices"
)

// SetLives decides how containers of that name live, in every pod: the first attempt
// has the first life, and so on; attempts beyond the last have the last one again. It
// holds for containers started from now on. No lives means what Config.Script says.
func (s *Server) SetLives(container string, lives ...Life) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.lives[container] = slices.Clone(lives)
}

// SetImage adds an image or changes what is known about it. One with a Pull is absent
// until it is pulled anew.
func (s *Server) SetImage(i Image) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.images.set(i)
}

// SetNetworkProblem makes the condition NetworkReady false with this message, and every
// new sandbox fail unless it uses the host's network. Empty ends it.
func (s *Server) SetNetworkProblem(message string) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.network.problem = message
}

// ContainerID returns the id of the newest container of that name in the pod
// "namespace/name", or an error that says what there is.
func (s *Server) ContainerID(pod, container string) (string, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	c := s.world.newestLocked(pod, container)
	if c == nil {
		return "", fmt.Errorf("runtimetest: pod %q has no container %q among %d containers", pod, container, len(s.world.containers))
	}
	return c.id, nil
}

// Exit ends the newest container of that name in the pod "namespace/name" now,
// whatever its life says; e.After is ignored.
func (s *Server) Exit(pod, container string, e Exit) error {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	c := s.world.newestLocked(pod, container)
	if c == nil || !c.running() {
		return fmt.Errorf("runtimetest: pod %q has no running container %q", pod, container)
	}
	s.world.exitLocked(c, e)
	return nil
}

func (w *world) newestLocked(pod, name string) *container {
	var newest *container
	for _, c := range w.containers {
		if podName(c.sandbox.config.GetMetadata()) != pod || c.config.GetMetadata().GetName() != name {
			continue
		}
		if newest == nil || c.serial > newest.serial {
			newest = c
		}
	}
	return newest
}
