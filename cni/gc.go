package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Recorded is an attachment that an Invoker knows of.
type Recorded struct {
	Key
	// Network is the name of its configuration.
	Network string
	// NetNS is the path of its network namespace, empty if the record is damaged or not
	// written yet.
	NetNS string
	// State says how far ADD came.
	State State
}

// State is that of a record.
type State uint8

// The states of a record.
const (
	// Attached means that ADD has finished.
	Attached State = iota + 1
	// Unfinished means that ADD, or what undoes it, is at work, or that a crash or a
	// plugin that cannot be undone cut it short.
	Unfinished
	// Damaged means that the record cannot be read; undoing it takes the network's
	// present configuration.
	Damaged
)

// String returns the name in lower case.
func (s State) String() string {
	switch s {
	case Attached:
		return "attached"
	case Unfinished:
		return "unfinished"
	case Damaged:
		return "damaged"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Attachments returns what is recorded, sorted by key. It does not wait for ADD and
// DEL at work.
func (v *Invoker) Attachments() ([]Recorded, error) {
	names, err := v.disk.Names()
	if err != nil {
		return nil, fmt.Errorf("cni attachments: %w", err)
	}
	slices.Sort(names)
	var all []Recorded
	for _, name := range names {
		e, err := v.peek(name)
		if err != nil {
			return nil, fmt.Errorf("cni attachments: %w", err)
		}
		if e != nil {
			all = append(all, e.recorded())
		}
	}
	return all, nil
}

// Result returns what ADD returned for an attachment. It is an ErrNotAttached if no
// finished ADD is recorded. It does not wait for ADD and DEL at work.
func (v *Invoker) Result(k Key) (*Result, error) {
	result, err := v.result(k)
	if err != nil {
		return nil, fmt.Errorf("cni result %s: %w", k, err)
	}
	return result, nil
}

func (v *Invoker) result(k Key) (*Result, error) {
	names, err := v.disk.Names()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(names, func(name string) bool { key, _, ok := parseName(name); return ok && key == k })
	if i < 0 {
		return nil, ErrNotAttached
	}
	e, err := v.peek(names[i])
	if err != nil {
		return nil, err
	}
	if e == nil || e.record == nil || e.record.result == nil {
		return nil, fmt.Errorf("%w: its ADD has not finished", ErrNotAttached)
	}
	result, err := parseResult(e.record.result)
	if err == nil {
		result.Unclaimed = unclaimed(e.record.network, e.record.Capabilities)
	}
	return result, err
}

// peek reads a record without its lock; nil means that it is none, or gone by now.
func (v *Invoker) peek(name string) (*entry, error) {
	if _, _, ok := parseName(name); !ok {
		return nil, nil
	}
	data, busy, err := v.disk.Peek(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	e := newEntry(name, data)
	e.busy = busy
	return e, nil
}

func (e *entry) recorded() Recorded {
	r := Recorded{Key: e.key, Network: e.network, State: Unfinished}
	switch {
	case e.record == nil && !e.busy:
		r.State = Damaged
	case e.record != nil && e.record.result != nil:
		r.State = Attached
	}
	if e.record != nil {
		r.NetNS = e.record.NetNS
	}
	return r
}

// each opens one record after the other, in the order of their names.
func (v *Invoker) each(ctx context.Context, do func(*entry)) error {
	names, err := v.disk.Names()
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, _, ok := parseName(name); !ok {
			continue
		}
		e, err := v.open(ctx, name)
		if err != nil {
			return err
		}
		if e != nil {
			do(e)
			e.file.Close()
		}
	}
	return nil
}

// GC removes every recorded attachment that is not valid, of whichever network,
// with the configuration that its ADD used, and returns those it removed. Then it
// runs GC for the plugins of n, if n is of CNI 1.1 or newer and does not disable it;
// n may be nil. An attachment that cannot be removed does not keep others from it;
// the error has them all, and their records stay for the next GC.
//
// It waits until no ADD or DEL is at work, here and in other processes with the same
// StateDir, and none begins before it ends. In between it calls valid, which returns
// the attachments to keep: so it must know each attachment whose Add was ever
// called. It may use Attachments and Result; other methods would wait for ever. If
// valid fails nothing is removed.
func (v *Invoker) GC(ctx context.Context, n *Network, valid func(context.Context) ([]Key, error)) ([]Recorded, error) {
	removed, err := v.gc(ctx, n, valid)
	if err != nil {
		return removed, fmt.Errorf("cni gc: %w", err)
	}
	return removed, nil
}

func (v *Invoker) gc(ctx context.Context, n *Network, valid func(context.Context) ([]Key, error)) ([]Recorded, error) {
	leave, err := v.gate.alone(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for ADD and DEL at work: %w", err)
	}
	defer leave()
	release, err := v.disk.Hold(ctx, alone)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	defer release()
	keep, err := valid(ctx)
	if err != nil {
		return nil, fmt.Errorf("valid attachments: %w", err)
	}
	var removed []Recorded
	var errs []error
	foreign := map[Key]bool{} // attachments to other networks than n
	err = v.each(ctx, func(e *entry) {
		if slices.Contains(keep, e.key) {
			foreign[e.key] = n != nil && e.network != n.Name
			return
		}
		err := v.remove(ctx, e, n, Attachment{ContainerID: e.key.ContainerID, IfName: e.key.IfName})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of network %s: %w", e.key, e.network, err))
			return
		}
		removed = append(removed, e.recorded())
		v.cfg.Log.Info("removed a stale attachment", "container", e.key.ContainerID, "interface", e.key.IfName, "network", e.network)
	})
	errs = append(errs, err)
	if n != nil && n.atLeast("1.1.0") && !n.DisableGC {
		own := slices.DeleteFunc(slices.Clone(keep), func(k Key) bool { return foreign[k] })
		errs = append(errs, v.chain(n, Attachment{}, nil, execution{}).all(ctx, "GC", extras{valid: append([]Key{}, own...)}))
	}
	return removed, errors.Join(errs...)
}
