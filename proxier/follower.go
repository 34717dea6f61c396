package proxier

// Follower is told what a Backend has put in force, after it succeeded: conntrack
// clean-up and health checks of Services are followers. Its methods are called one
// at a time by Run, between rounds; they must not block and must not change what
// they are given.
type Follower interface {
	// Reset is told that s is in force, and nothing else.
	Reset(s *State)
	// Applied is told what has changed since.
	Applied(d Delta)
}
