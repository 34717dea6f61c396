package podstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultToleration is how long a pod without a toleration of its own stays with an
// unreachable node: what the admission plugin DefaultTolerationSeconds of the API server
// gives to pods
// (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions).
const DefaultToleration = 300 * time.Second

// DefaultContactEvery is how often the time of the last contact is written at most: a
// flash memory lives for years with one small write a minute.
const DefaultContactEvery = time.Minute

// Sealer encrypts what must not be on a disk in the clear, so that only this machine can
// read it again: with a TPM, say, or by systemd-creds. The name goes into the seal: what
// was sealed under one name must not open under another.
type Sealer interface {
	Seal(ctx context.Context, name string, plain []byte) (sealed []byte, err error)
	Open(ctx context.Context, name string, sealed []byte) (plain []byte, err error)
}

// Config says where a Store is and what it may keep. Dir is required.
type Config struct {
	// Dir is the directory, made with mode 0700 if it is missing. It is the Store's alone.
	Dir string
	// Sealer encrypts Secrets; nil: none is kept.
	Sealer Sealer
	// Toleration is how long a pod without a toleration of an unreachable node stays with
	// it; 0: DefaultToleration, negative: not at all.
	Toleration time.Duration
	// ContactEvery is the shortest time between two writes of the time of the last
	// contact; 0: DefaultContactEvery. By as much pods may be given up too early.
	ContactEvery time.Duration
}

func (c *Config) complete() error {
	switch {
	case c.Dir == "":
		return errors.New("podstore: Config.Dir is empty, want the directory of the store")
	case c.ContactEvery < 0:
		return fmt.Errorf("podstore: Config.ContactEvery is %s, want 0 (%s) or more", c.ContactEvery, DefaultContactEvery)
	}
	if c.Toleration == 0 {
		c.Toleration = DefaultToleration
	}
	if c.ContactEvery == 0 {
		c.ContactEvery = DefaultContactEvery
	}
	return nil
}

// Store keeps the specs of pods on the disk.
type Store struct {
	cfg  Config
	disk disk
	// recalled is what was there at the start.
	recalled Recalled

	// mu guards the fields below and the files, also while they are written.
	mu sync.Mutex
	// written has what is in each file; nothing if that is not sure.
	written map[string][]byte
	// current is true once the API server has told the set that the files are of.
	current bool
	// contact is the time that is in its file.
	contact time.Time
	// ended are pods of the set that need not run again.
	ended map[types.UID]bool
	// kept is since when each file of a ConfigMap or Secret is there.
	kept map[string]time.Time
	// plain are the checksums of what was sealed, as far as this process knows them.
	plain map[string][sha256.Size]byte
}

// Open reads the directory. The error names entries that are damaged ([ErrDamaged]), which
// are put aside as *.damaged; the Store is usable without them. It is nil only if the
// directory or the configuration cannot be used.
func Open(cfg Config) (*Store, error) {
	return open(cfg, func(string) error { return nil })
}

// open is Open with what tests need.
func open(cfg Config, step func(string) error) (*Store, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, disk: disk{dir: cfg.Dir, step: step},
		written: map[string][]byte{}, ended: map[types.UID]bool{}, kept: map[string]time.Time{},
		plain: map[string][sha256.Size]byte{},
	}
	if err := s.disk.open(); err != nil {
		return nil, err
	}
	names, err := s.disk.names()
	if names == nil && err != nil {
		return nil, err
	}
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, s.load(name))
	}
	slices.SortFunc(s.recalled.Pods, byName)
	s.recalled.Contact, s.recalled.toleration = s.contact, cfg.Toleration
	return s, errors.Join(errs...)
}

// byName orders pods by namespace and name.
func byName(a, b *corev1.Pod) int {
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// load takes in a file, or puts it aside.
func (s *Store) load(name string) error {
	payload, err := s.disk.read(name)
	if err == nil {
		err = s.accept(name, payload)
	}
	if err == nil {
		s.written[name] = payload
		return nil
	}
	return errors.Join(fmt.Errorf("an entry of the pod store is not used, %s in %s: %w", name, s.cfg.Dir, err), s.disk.aside(name))
}

// accept takes in the payload of a file.
func (s *Store) accept(name string, payload []byte) error {
	switch kind, _, _ := strings.Cut(name, "-"); kind {
	case kindPod:
		pod, err := decodePod(payload)
		if err == nil && podFile(pod.UID) != name {
			err = fmt.Errorf("%w: it is about pod %s", ErrDamaged, pod.UID)
		}
		if err != nil {
			return err
		}
		s.recalled.Pods = append(s.recalled.Pods, pod)
	case kindConfigMap, kindSecret:
		o, err := decodeObject(payload)
		if err == nil && objectFile(kind, o.Namespace, o.Name) != name {
			err = fmt.Errorf("%w: it is about %s/%s", ErrDamaged, o.Namespace, o.Name)
		}
		if err != nil {
			return err
		}
		s.kept[name] = time.Now()
	case kindContact:
		t, err := decodeContact(payload)
		if err != nil {
			return err
		}
		s.contact = t
	default:
		return fmt.Errorf("%w: no entry has such a name", ErrDamaged)
	}
	return nil
}

// Recall returns what the Store had when it was opened.
func (s *Store) Recall() Recalled {
	return Recalled{Pods: slices.Clone(s.recalled.Pods), Contact: s.recalled.Contact, toleration: s.recalled.toleration}
}

// Replace makes the set of the API server that of the Store: pods that it does not name
// go, then those that are new or changed are written. Static pods, mirrors and pods that
// have ended are left out. What cannot be written is the error; the rest is done.
func (s *Store) Replace(pods []*corev1.Pod) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string][]byte{}
	named := map[types.UID]bool{}
	var kept []*corev1.Pod
	var errs []error
	for _, pod := range pods {
		named[pod.UID] = true
		if !worthKeeping(pod) || s.ended[pod.UID] {
			continue
		}
		payload, err := encodePod(pod)
		if err != nil {
			errs = append(errs, fmt.Errorf("keep pod %s/%s: %w", pod.Namespace, pod.Name, err))
			continue
		}
		next[podFile(pod.UID)] = payload
		kept = append(kept, pod)
	}
	maps.DeleteFunc(s.ended, func(uid types.UID, _ bool) bool { return !named[uid] })
	errs = append(errs, s.removeLocked(s.unwantedLocked(next, kept)))
	for _, name := range slices.Sorted(maps.Keys(next)) {
		errs = append(errs, s.writeLocked(name, next[name]))
	}
	err := errors.Join(errs...)
	s.current = s.current || err == nil
	return err
}

// restForObjects is how long a ConfigMap or Secret is kept at least: it may be read for a
// pod before the set with that pod is written.
const restForObjects = 10 * time.Minute

// unwantedLocked returns the files of pods that are not among the next ones, and those of
// objects that none of the pods refers to.
func (s *Store) unwantedLocked(next map[string][]byte, pods []*corev1.Pod) []string {
	referred := map[string]bool{}
	for _, pod := range pods {
		for name := range references(pod) {
			referred[name] = true
		}
	}
	var names []string
	for name := range s.written {
		kind, _, _ := strings.Cut(name, "-")
		switch {
		case kind == kindPod && next[name] == nil:
			names = append(names, name)
		case (kind == kindConfigMap || kind == kindSecret) && !referred[name] && time.Since(s.kept[name]) > restForObjects:
			names = append(names, name)
		}
	}
	return names
}

// Ended takes note that a pod has ended and must not run again. It is called before
// anybody is told: a crash right after that must not lose it.
func (s *Store) Ended(uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[uid] = true
	if _, ok := s.written[podFile(uid)]; !ok {
		return nil
	}
	return s.removeLocked([]string{podFile(uid)})
}

// Contact takes note that the cluster has heard of this node at a time. It has no effect
// before Replace has brought the files up to date, as pods that the cluster has moved
// meanwhile would seem to be welcome here, and is not written more often than the
// configuration says.
func (s *Store) Contact(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	early := t.Sub(s.contact) < s.cfg.ContactEvery && !t.Before(s.contact)
	if !s.current || early {
		return nil
	}
	if err := s.writeLocked(kindContact, encodeContact(t)); err != nil {
		return err
	}
	s.contact = t
	return nil
}

// writeLocked writes a file, if it has another content.
func (s *Store) writeLocked(name string, payload []byte) error {
	if old, ok := s.written[name]; ok && string(old) == string(payload) {
		return nil
	}
	if len(payload) > maxPayload/2 {
		return fmt.Errorf("write %s: %d bytes are too many for the pod store", name, len(payload))
	}
	s.written[name] = nil // until it is done
	if err := s.disk.write(name, payload); err != nil {
		return err
	}
	s.written[name] = payload
	return nil
}

// removeLocked removes files for good.
func (s *Store) removeLocked(names []string) error {
	var errs []error
	slices.Sort(names)
	for _, name := range names {
		if err := s.disk.remove(name); err != nil {
			errs = append(errs, fmt.Errorf("remove an entry of the pod store: %w", err))
			continue
		}
		delete(s.written, name)
		delete(s.kept, name)
		delete(s.plain, name)
	}
	if len(names) > 0 {
		errs = append(errs, s.disk.sync())
	}
	return errors.Join(errs...)
}
