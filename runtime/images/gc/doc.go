// Package gc removes images that nobody uses when the disk that holds them gets full,
// or when they have not been used for long.
//
// Decide says which images go, as a pure function; a Collector finds out what there is,
// carries the decision out, and does so again every few minutes:
//
//	c, err := gc.New(client, gc.Config{})
//	if err != nil {
//		return err
//	}
//	err = c.Run(ctx)
//
// It removes no containers and no volumes. It keeps images that a container has, running
// or not, images that are mounted as volumes, images that the runtime has pinned, and
// images that are new.
//
// A Collector is safe for use by many goroutines; passes run one after the other. It
// asks the runtime and looks at the size of a file system, which needs no privileges
// but those for the runtime's socket.
package gc
