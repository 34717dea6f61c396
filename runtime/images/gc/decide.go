package gc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The defaults of the kubelet's configuration
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/): imageGCHighThresholdPercent,
// imageGCLowThresholdPercent and imageMinimumGCAge.
const (
	DefaultHighPercent = 85
	DefaultLowPercent  = 80
	DefaultMinAge      = 2 * time.Minute
)

// never is the HighPercent that a usage, which is rounded up, reaches but is not meant to.
const never = 100

// Policy says when images go.
type Policy struct {
	// HighPercent is the usage of the file system, from 0 to 100, from which on images
	// are removed, until it is at LowPercent. With 100 none is removed for space, however
	// full it is.
	HighPercent int
	LowPercent  int
	// MinAge is how long an image is kept after it was seen first.
	MinAge time.Duration
	// MaxAge is how long an image that is not used is kept even if there is room; zero
	// means for ever. It counts from the start of the agent at the earliest.
	MaxAge time.Duration
}

// DefaultPolicy returns the kubelet's.
func DefaultPolicy() Policy {
	return Policy{HighPercent: DefaultHighPercent, LowPercent: DefaultLowPercent, MinAge: DefaultMinAge}
}

func (p Policy) validate() error {
	switch {
	case p.LowPercent < 0 || p.HighPercent > 100 || p.LowPercent > p.HighPercent:
		return fmt.Errorf("Policy.LowPercent is %d and HighPercent %d, want 0 <= LowPercent <= HighPercent <= 100", p.LowPercent, p.HighPercent)
	case p.MinAge < 0:
		return fmt.Errorf("Policy.MinAge is %s, want 0 or more", p.MinAge)
	case p.MaxAge < 0:
		return fmt.Errorf("Policy.MaxAge is %s, want 0 (for ever) or more", p.MaxAge)
	case p.MaxAge > 0 && p.MaxAge < p.MinAge:
		return fmt.Errorf("Policy.MaxAge is %s, want 0 (for ever) or at least MinAge, %s", p.MaxAge, p.MinAge)
	}
	return nil
}

// Image is what a decision needs to know of an image.
type Image struct {
	ID   string
	Size uint64
	// Kept says that the image must stay: it is used, about to be used, pinned or on a
	// list.
	Kept bool
	// FirstSeen is when it was seen first, LastUsed when it was used last; zero means
	// never.
	FirstSeen time.Time
	LastUsed  time.Time
}

// touched is when anything happened with the image.
func (i Image) touched() time.Time {
	if i.LastUsed.After(i.FirstSeen) {
		return i.LastUsed
	}
	return i.FirstSeen
}

// Usage is that of the file system of images, in bytes.
type Usage struct {
	Capacity  uint64
	Available uint64
}

// Percent returns how much is used, rounded up.
func (u Usage) Percent() int {
	if u.Capacity == 0 {
		return 100
	}
	return 100 - int(percentOf(min(u.Available, u.Capacity), u.Capacity))
}

// percentOf is part in percent of whole, rounded down, without overflow.
func percentOf(part, whole uint64) uint64 {
	if whole > 1<<57 {
		return part / (whole / 100)
	}
	return part * 100 / whole
}

// Times are the times that a decision depends on.
type Times struct {
	// Now is the time of the decision, Started that of the agent's start.
	Now     time.Time
	Started time.Time
}

// Reason is why an image goes.
type Reason string

// The reasons, in the words of the kubelet's metric kubelet_image_garbage_collected_total.
const (
	Age   Reason = "age"
	Space Reason = "space"
)

// Removal is an image that goes.
type Removal struct {
	Image  Image
	Reason Reason
}

// Decision is what to remove, in this order.
type Decision struct {
	Removals []Removal
	// Target is how many bytes have to come free for space; zero if there is room.
	Target uint64
	// Short is how many of them the removals do not bring.
	Short uint64
}

// String returns the decision for people, one line per image.
func (d Decision) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "free %d bytes", d.Target)
	if d.Short > 0 {
		fmt.Fprintf(&b, ", %d of which nothing can free", d.Short)
	}
	for _, r := range d.Removals {
		fmt.Fprintf(&b, "\nremove %s of %d bytes for %s", r.Image.ID, r.Image.Size, r.Reason)
	}
	return b.String()
}

// Decide says which images go: first those over MaxAge; then, if the usage is at
// HighPercent or more and that is less than 100, those used longest ago, until the usage
// would be LowPercent. What removals for age bring counts for that.
func Decide(images []Image, u Usage, p Policy, t Times) Decision {
	var d Decision
	var brought uint64
	rest := oldestFirst(images, p.MinAge, t.Now)
	if p.MaxAge > 0 && t.Now.Sub(t.Started) > p.MaxAge {
		rest = slices.DeleteFunc(rest, func(i Image) bool {
			if t.Now.Sub(i.touched()) <= p.MaxAge {
				return false
			}
			d.Removals = append(d.Removals, Removal{i, Age})
			brought = add(brought, i.Size)
			return true
		})
	}
	if p.HighPercent == never || u.Percent() < p.HighPercent {
		return d
	}
	d.Target = excess(u, p.LowPercent)
	for _, i := range rest {
		if brought >= d.Target {
			break
		}
		d.Removals = append(d.Removals, Removal{i, Space})
		brought = add(brought, i.Size)
	}
	d.Short = d.Target - min(brought, d.Target)
	return d
}

// Unused is the decision to remove every image that may go at all, whatever the usage.
func Unused(images []Image, p Policy, now time.Time) Decision {
	var d Decision
	for _, i := range oldestFirst(images, p.MinAge, now) {
		d.Removals = append(d.Removals, Removal{i, Space})
	}
	return d
}

// oldestFirst returns the images that may go, in the order in which they do.
func oldestFirst(images []Image, minAge time.Duration, now time.Time) []Image {
	var all []Image
	for _, i := range images {
		if !i.Kept && now.Sub(i.FirstSeen) >= minAge && i.LastUsed.Before(now) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Image) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// excess is how many bytes are used beyond a percentage of the capacity.
func excess(u Usage, percent int) uint64 {
	free := uint64(100 - percent)
	want := u.Capacity / 100 * free
	want += u.Capacity % 100 * free / 100
	return want - min(u.Available, want)
}

// add adds sizes, which a runtime may make up, without overflow.
func add(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
