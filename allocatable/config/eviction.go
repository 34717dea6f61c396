package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
)

// The signals whose hard thresholds keep something from what a node offers.
const (
	memoryAvailable = "memory.available"
	nodefsAvailable = "nodefs.available"
)

// defaultEvictionHard returns the hard thresholds of the kubelet on Linux
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction).
func defaultEvictionHard() map[string]string {
	return map[string]string{
		memoryAvailable:      "100Mi",
		nodefsAvailable:      "10%",
		"nodefs.inodesFree":  "5%",
		"imagefs.available":  "15%",
		"imagefs.inodesFree": "5%",
	}
}

// signals are what a threshold can be about (same page).
func signals() []string {
	return []string{
		"allocatableMemory.available", "containerfs.available", "containerfs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		memoryAvailable, nodefsAvailable, "nodefs.inodesFree", "pid.available",
	}
}

// hardThresholds returns the thresholds in force. All defaults hold when nothing is
// set. As soon as a map is set, be it empty, those it does not name are off, unless
// mergeDefaultEvictionSettings keeps them.
func hardThresholds(c *kubeletv1beta1.KubeletConfiguration) map[string]string {
	merge := c.MergeDefaultEvictionSettings != nil && *c.MergeDefaultEvictionSettings
	if c.EvictionHard != nil && !merge {
		return c.EvictionHard
	}
	thresholds := defaultEvictionHard()
	maps.Copy(thresholds, c.EvictionHard)
	return thresholds
}

// eviction checks all maps of thresholds.
func (v *validator) eviction(c *kubeletv1beta1.KubeletConfiguration) {
	v.thresholds("evictionHard", c.EvictionHard)
	v.thresholds("evictionSoft", c.EvictionSoft)
	if off := missing(c.EvictionHard, defaultEvictionHard()); len(off) > 0 {
		v.warn("evictionHard", "switches the defaults of %s off; mergeDefaultEvictionSettings: true keeps them", strings.Join(off, ", "))
	}
	for _, signal := range missing(c.EvictionSoftGracePeriod, c.EvictionSoft) {
		v.fail(at("evictionSoft", signal), "has no entry in evictionSoftGracePeriod, which every soft threshold needs")
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		v.gracePeriod(at("evictionSoftGracePeriod", signal), signal, c.EvictionSoftGracePeriod[signal])
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionMinimumReclaim)) {
		field := at("evictionMinimumReclaim", signal)
		if v.signal(field, signal) {
			v.reclaim(field, c.EvictionMinimumReclaim[signal])
		}
	}
	v.notNegative("evictionMaxPodGracePeriod", int64(c.EvictionMaxPodGracePeriod))
	v.positive("evictionPressureTransitionPeriod", c.EvictionPressureTransitionPeriod.Duration)
}

func (v *validator) thresholds(field string, thresholds map[string]string) {
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		if !v.signal(at(field, signal), signal) {
			continue
		}
		if _, err := allocatable.ParseThreshold(thresholds[signal]); err != nil {
			v.fail(at(field, signal), "%v", err)
		}
	}
}

// signal says whether there is such a signal, and reports it if not.
func (v *validator) signal(field, signal string) bool {
	if slices.Contains(signals(), signal) {
		return true
	}
	v.fail(field, "is no signal; there are %s", strings.Join(signals(), ", "))
	return false
}

func (v *validator) gracePeriod(field, signal, value string) {
	if !v.signal(field, signal) {
		return
	}
	if d, err := time.ParseDuration(value); err != nil || d < 0 {
		v.fail(field, "is %q, must be a duration like 1m30s", value)
	}
}

// reclaim takes a share as a threshold does, and an amount of 0 besides.
func (v *validator) reclaim(field, value string) {
	if q, err := resource.ParseQuantity(value); err == nil && q.IsZero() {
		return
	}
	if _, err := allocatable.ParseThreshold(value); err != nil {
		v.fail(field, "%v", err)
	}
}

// missing returns the keys of all that have does not have, in order.
func missing(have, all map[string]string) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if _, ok := have[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// at names an entry of a map.
func at(field, key string) string { return fmt.Sprintf("%s[%s]", field, key) }
