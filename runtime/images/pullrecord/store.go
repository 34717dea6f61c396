package pullrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/runtime/images/reference"
)

// maxLearned bounds the secrets of a record that are added without a pull, so that
// rotation cannot make it grow without end.
const maxLearned = 100

// Store holds records of pulls in a directory.
type Store struct {
	// mu keeps reading and writing of a record together. It is held over the I/O of
	// these small files on purpose: they are the state.
	mu      sync.Mutex
	pulling folder
	pulled  folder
	// active has the pulls under way, by image.
	active map[string]*pull
}

// pull stands for pulls of one image that overlap.
type pull struct {
	count int
	// uncertain says that the end of an earlier pull was not seen, by this process or by
	// one before: the image may have come by that one, so that a failure of the later ones
	// does not clear it.
	uncertain bool
}

// Open returns the Store in a directory, by convention image_manager in the root
// directory of a kubelet. It makes the directory if need be. Call Recover before the
// first pull.
func Open(dir string) (*Store, error) {
	s := &Store{
		pulling: folder(filepath.Join(dir, "pulling")),
		pulled:  folder(filepath.Join(dir, "pulled")),
		active:  make(map[string]*pull),
	}
	for _, f := range []folder{s.pulling, s.pulled} {
		if err := os.MkdirAll(string(f), 0o700); err != nil {
			return nil, fmt.Errorf("open records of image pulls: %w", err)
		}
	}
	return s, nil
}

// Begin records that a pull of an image begins. Done, Abandon or CutOff has to follow, once
// for each Begin. image is its name as the pod writes it. Without the record there must be
// no pull: the image would count as one that was on the node before.
func (s *Store) Begin(image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.active[image]; p != nil {
		p.count++
		return nil
	}
	_, err := s.pulling.read(image)
	begun := !errors.Is(err, fs.ErrNotExist)
	i := intent{typeMeta: typeMeta{intentKind, writtenVersion}, Image: image}
	if err := s.pulling.write(image, i); err != nil {
		return fmt.Errorf("record the pull of image %s: %w", image, err)
	}
	s.active[image] = &pull{count: 1, uncertain: begun}
	return nil
}

// Done records that a pull of an image brought the image with an id, and what gives
// access to it. After an error the pull stays on record as begun, so that nobody gets
// at the image without a pull.
func (s *Store) Done(image, id string, by Access) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.active[image]
	if p == nil {
		return fmt.Errorf("record the pull of image %s: %w", image, errNotBegun)
	}
	err := s.addLocked(image, id, by, true)
	p.uncertain = err != nil
	if endErr := s.endLocked(image, p); endErr != nil {
		err = errors.Join(err, endErr)
	}
	if err != nil {
		return fmt.Errorf("record the pull of image %s: %w", image, err)
	}
	return nil
}

// errNotBegun is what Done, Abandon and CutOff say without Begin.
var errNotBegun = errors.New("it was not recorded as begun")

// Abandon records that a pull failed. An earlier pull whose end was not seen stays on
// record: the image may have come by that one.
func (s *Store) Abandon(image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.active[image]
	if p == nil {
		return fmt.Errorf("record the failed pull of image %s: %w", image, errNotBegun)
	}
	if err := s.endLocked(image, p); err != nil {
		return fmt.Errorf("record the failed pull of image %s: %w", image, err)
	}
	return nil
}

// CutOff records that the end of a pull was not seen: it was cancelled, or the runtime went
// away. The image may have come by it, or may yet. The pull stays on record as begun, as
// after a crash, so that nobody gets at the image without another pull.
func (s *Store) CutOff(image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.active[image]
	if p == nil {
		return fmt.Errorf("record the pull of image %s as cut off: %w", image, errNotBegun)
	}
	p.uncertain = true
	return s.endLocked(image, p)
}

// endLocked ends one of the pulls of an image. With the last one the image is no longer
// on record as being pulled, if that is certain.
func (s *Store) endLocked(image string, p *pull) error {
	if p.count--; p.count > 0 {
		return nil
	}
	delete(s.active, image)
	if p.uncertain {
		return nil
	}
	return s.pulling.remove(image)
}

// addLocked adds access to the record of an image id. With create there is a record
// afterwards even if it grants nothing.
func (s *Store) addLocked(image, id string, by Access, create bool) error {
	ref, err := reference.Parse(image)
	if err != nil {
		return err
	}
	r, err := s.readLocked(id)
	if r == nil {
		// One that cannot be read grants nothing, so nothing is lost with it.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !create {
			return err
		}
		r = &record{typeMeta: typeMeta{recordKind, writtenVersion}, ImageRef: id}
	} else {
		create = false
	}
	if !r.add(ref.Name, by) && !create {
		return nil
	}
	r.APIVersion = writtenVersion
	r.LastUpdated = time.Now().UTC().Truncate(time.Second)
	return s.pulled.write(id, r)
}

func (s *Store) readLocked(id string) (*record, error) {
	data, err := s.pulled.read(id)
	if err != nil {
		return nil, err
	}
	r, err := decodeRecord(data)
	if err != nil {
		return nil, fmt.Errorf("record of image %s: %w", id, err)
	}
	if r.ImageRef != id {
		return nil, fmt.Errorf("record of image %s is about %s", id, r.ImageRef)
	}
	return r, nil
}

// Allows reports whether a pod may use an image that is on the node under an id without
// another pull. access is called at most once, and only if the answer depends on what
// the pod has; its error is returned. A record that cannot be read allows nothing and
// is an error too, which is for a log: a pull sets it right.
func (s *Store) Allows(image, id string, v Verifier, access func() (Access, error)) (bool, error) {
	if v.never() {
		return true, nil
	}
	ref, err := reference.Parse(image)
	if err != nil {
		return false, err
	}
	r, pulled, err := s.look(image, id)
	switch {
	case err != nil:
		return false, err
	case !v.required(ref.Name, pulled):
		return true, nil
	case r == nil || !r.knows(ref.Name):
		return false, nil
	case r.Credentials[ref.Name].Everybody:
		return true, nil
	}
	pod, err := access()
	if err != nil {
		return false, err
	}
	granted, learn := r.grants(ref.Name, pod)
	if granted && len(learn.Secrets) > 0 && len(r.Credentials[ref.Name].Secrets) < maxLearned {
		s.mu.Lock()
		defer s.mu.Unlock()
		return true, s.addLocked(image, id, learn, false)
	}
	return granted, nil
}

// look returns the record of an image id, if there is one, and whether the image was
// pulled by this agent.
func (s *Store) look(image, id string) (*record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.readLocked(id)
	switch {
	case err == nil:
		return r, true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, true, err
	}
	if s.active[image] != nil {
		return nil, true, nil
	}
	_, err = s.pulling.read(image)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.begunLocked(image), nil
	}
	return nil, true, err
}

// begunLocked reports whether a pull of an image has begun under another way to write its
// name. Pulls are on record by the name as it is written, which is where a kubelet looks for
// them; but what comes by one of them is there for all names.
func (s *Store) begunLocked(image string) bool {
	name, found := listed(image), false
	// A file that cannot be read stands for one name only, whose own look-up fails.
	_ = s.pulling.each(func(data []byte) error {
		i, err := decodeIntent(data)
		found = found || err == nil && listed(i.Image) == name
		return err
	})
	return found
}

// Image is an image that is on the node.
type Image struct {
	ID string
	// Names are its tags and digests in full, as the runtime lists them.
	Names []string
}

// settleAfter is how long an image may take to come by a pull whose end was not seen. Some
// runtimes go on with a pull that nobody waits for.
const settleAfter = 24 * time.Hour

// Recover looks through the pulls whose end was not seen, by an earlier process or, after
// CutOff, by this one; pulls under way are left alone. The images of those that the runtime
// has count as pulled, with unknown credentials; the others stay as they are until the next
// pull of the image, or for a day.
func (s *Store) Recover(images []Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var begun []string
	err := s.pulling.each(func(data []byte) error {
		i, err := decodeIntent(data)
		if err == nil {
			begun = append(begun, i.Image)
		}
		return err
	})
	errs := []error{err}
	for _, image := range begun {
		if s.active[image] != nil {
			continue
		}
		id := find(images, image)
		if id == "" {
			errs = append(errs, s.pulling.removeOlder(image, settleAfter))
			continue
		}
		if err := s.addLocked(image, id, Access{}, true); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, s.pulling.remove(image))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("recover records of image pulls: %w", err)
	}
	return nil
}

// find returns the id of the image with a name; empty if there is none.
func find(images []Image, name string) string {
	full := listed(name)
	if full == "" {
		return ""
	}
	for _, i := range images {
		if slices.Contains(i.Names, full) {
			return i.ID
		}
	}
	return ""
}

// listed returns an image's name as the runtime lists it; empty if it is no name.
func listed(name string) string {
	ref, err := reference.Parse(name)
	switch {
	case err != nil:
		return ""
	case ref.Digest != "":
		return ref.Repository() + "@" + ref.Digest
	}
	return ref.String()
}

// Prune removes the records of images that are not among ids, unless they were changed
// at or after a time, which is when ids was listed.
func (s *Store) Prune(ids []string, listed time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []string
	err := s.pulled.each(func(data []byte) error {
		r, err := decodeRecord(data)
		if err == nil && !slices.Contains(ids, r.ImageRef) && r.LastUpdated.Before(listed.Truncate(time.Second)) {
			gone = append(gone, r.ImageRef)
		}
		return err
	})
	errs := []error{err}
	for _, id := range gone {
		errs = append(errs, s.pulled.remove(id))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prune records of image pulls: %w", err)
	}
	return nil
}
