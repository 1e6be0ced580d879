package vectors

// differences are the cases that Berth answers differently on purpose, by id.
var differences = map[string]struct {
	reason string
	apply  func(*Case)
}{
	// In Velero an unfiltered backup of a cluster without namespaces claims none.
	// In Berth everything overlaps everything, always: these two run on a literal each.
	"u05": {"two backups of everything never run at once: these hold a namespace each", runOnLiterals},
	"u06": {"two backups of everything never run at once: these hold a namespace each", runOnLiterals},

	// The earlier one is of everything as well as the running one: it cannot run
	// either. What the subject does is the same.
	"u07": {"everything overlaps everything: the earlier one is not runnable either", expect(waits(2, "conflict"))},

	// Three backups of everything at once.
	"u14": {"everything overlaps everything, also where no namespace exists: the state cannot be", refuse},

	// The document prints position 2 twice and 3 for the last: a slip for 1 to 4.
	"d-asprinted-b4": {"no two have the same position", expect(waits(3, "conflict"))},

	// Velero frees a backup's place and namespaces when it is Finalizing or waits
	// for plug-ins; Berth when it has ended. So the story is told with the end.
	"d-sequence": {"a backup holds its slot and its namespaces until its phase is terminal", endWhereVeleroReleases},

	// A namespace that does not exist yet is claimed by whoever names it.
	"x05": {"two backups that name the same namespace overlap, whether it exists or not", expect(waits(1, "conflict"))},

	// x09 has Velero's answer for another reason. There an empty list of includes
	// with a pattern among the excludes claims nothing; here it is everything but
	// those, and the subject is one of those.

	// Velero queues what it cannot compile, and lets it claim nothing.
	"x11": {"an invalid pattern is refused, it never reaches the queue", refuse},
	"x13": {"an invalid pattern is refused, it never reaches the queue", refuse},
	"x21": {"* among the excludes is refused, it never reaches the queue", refuse},

	"x15-Finalizing": {"a backup holds its slot and its namespaces until its phase is terminal", expect(waits(1, "conflict"))},

	// Velero counts what runs in memory, and the count can leak.
	"x19": {"what runs is counted, there is no counter that can leak", expect(Expect{Phase: "ReadyToStart", Why: "started"})},
}

func waits(position int, why string) Expect {
	return Expect{Phase: "Queued", Position: position, Why: why}
}

// expect is for cases of one step.
func expect(want Expect) func(*Case) {
	return func(c *Case) { c.Steps[0].Expect = want }
}

func refuse(c *Case) { c.Steps = []Step{{Op: Refuse, Subject: c.Steps[0].Subject}} }

func runOnLiterals(c *Case) {
	for i, b := range c.Backups {
		if b.Phase != "Queued" {
			c.Backups[i].Include = []string{"only-" + b.Name}
		}
	}
}

func endWhereVeleroReleases(c *Case) {
	for i, s := range c.Steps {
		if s.Op == SetPhase {
			c.Steps[i].Phase = "Completed"
		}
	}
}
