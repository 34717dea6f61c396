package podstatus

// Probe is a kind of probe of a container.
type Probe uint8

// The kinds of probes a container can have, with the numbers they have in package probes.
const (
	// Startup failing restarts the container; until it succeeds the others wait.
	Startup Probe = iota
	// Liveness failing restarts the container.
	Liveness
	// Readiness decides whether the container gets traffic.
	Readiness
)

// String returns the kind in lower case, as messages name it.
func (p Probe) String() string {
	switch p {
	case Liveness:
		return "liveness"
	case Readiness:
		return "readiness"
	case Startup:
		return "startup"
	}
	return "invalid"
}

// Result is where a probe of a container stands.
type Result uint8

// The results of a probe, thresholds already applied.
const (
	// Undecided probes have not run often enough to say.
	Undecided Result = iota
	// Success is a passed probe.
	Success
	// Failure is a failed probe.
	Failure
)

// String returns the result in lower case.
func (r Result) String() string {
	switch r {
	case Undecided:
		return "undecided"
	case Success:
		return "success"
	case Failure:
		return "failure"
	}
	return "invalid"
}

// Prober answers for the probes of running containers. It is called often and
// must not block.
type Prober interface {
	// ProbeResult returns where the probe of a kind of the container with this
	// runtime id stands, Undecided for one it does not know.
	ProbeResult(containerID string, kind Probe) Result
}

// result asks p, which may be nil.
func result(p Prober, id string, kind Probe) Result {
	if p == nil {
		return Undecided
	}
	return p.ProbeResult(id, kind)
}
