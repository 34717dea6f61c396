// Package shutdown ends the pods of a node in order when the machine goes down: those
// of low priority first, each group with its own time, the critical ones last.
//
//	manager, err := shutdown.New(shutdown.NewLogind(shutdown.LogindConfig{}), shutdown.Config{
//		Periods: shutdown.Periods(30*time.Second, 10*time.Second),
//		Pods:    activePods,
//		Kill:    func(ctx context.Context, pod *corev1.Pod, grace time.Duration) error { … },
//	})
//	if err != nil {
//		return err
//	}
//	return manager.Run(ctx)
//
// What says that the machine goes down is a Source. Logind is systemd's: it holds the
// machine up with a delay inhibitor until the pods have ended. Trigger is for everything
// else: a signal, the ACPI button, the notice of a cloud that takes the machine away.
//
// MakePlan is the decision alone; its String is what a dry run prints.
//
// The package does not power anything off, and kills nothing itself. While Manager.Down
// says so the node should not be ready and take no pods. A Manager is run once; Down may
// be called from any goroutine. Logind needs the system bus and, where the delay that
// logind allows has to be raised, root; the rest needs no privileges.
package shutdown
