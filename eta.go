package berth

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// RunKey says which runs are alike: those of one schedule, else those of the
// same namespaces.
type RunKey struct {
	// Schedule is the name of the schedule; empty for a backup of none.
	Schedule string
	// Namespaces is the text of the spec's two lists of namespaces, whatever their
	// order.
	Namespaces string
}

// RunKeyOf reads the key of a backup with these labels and this spec.
func RunKeyOf(labels map[string]string, spec Spec) RunKey {
	namespaces := "*"
	if len(spec.IncludedNamespaces) > 0 {
		namespaces = entriesText(spec.IncludedNamespaces)
	}
	if excluded := entriesText(spec.ExcludedNamespaces); excluded != "" {
		namespaces += " but " + excluded
	}
	return RunKey{Schedule: labels[LabelSchedule], Namespaces: namespaces}
}

// entriesText is a list sorted, each entry once, the empty one left out.
func entriesText(entries []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(entries)))
	return strings.TrimPrefix(strings.Join(sorted, ","), ",")
}

// PastRun is a run that ended with an archive.
type PastRun struct {
	RunKey
	// Took counts from its admission to its end.
	Took time.Duration
}

// History is the past runs of one cluster, newest first.
type History []PastRun

// Basis says what a prediction rests on, or why there is none. The list is closed.
type Basis string

const (
	// BasisImmediate: no run that takes time is in its way.
	BasisImmediate Basis = "immediate"
	// BasisSchedule: past runs of the same schedules.
	BasisSchedule Basis = "schedule"
	// BasisNamespaces: past runs of the same namespaces.
	BasisNamespaces Basis = "namespaces"
	// BasisCluster: past runs of the cluster, none of which is alike.
	BasisCluster Basis = "cluster"
	// BasisNoHistory: nothing has run in the cluster yet.
	BasisNoHistory Basis = "no history"
	// BasisPaused: the queue is paused until somebody resumes it.
	BasisPaused Basis = "paused"
	// BasisNoWorker: no worker of the cluster is alive.
	BasisNoWorker Basis = "no worker"
	// BasisUnreachable: the cluster's API is not heard of.
	BasisUnreachable Basis = "unreachable"
	// BasisStorageUnavailable: a storage location cannot be reached.
	BasisStorageUnavailable Basis = "storage unavailable"
	// BasisUnresolvable: the cluster's namespaces are not known yet.
	BasisUnresolvable Basis = "unresolvable"
	// BasisStartDeadline: its start deadline is predicted to come first.
	BasisStartDeadline Basis = "start deadline"
	// BasisNoSlot: the cluster's limit lets nothing run.
	BasisNoSlot Basis = "no slot"
)

// Bases lists every basis: first those of predictions, the stronger ones first,
// then those of none.
func Bases() []Basis {
	return []Basis{
		BasisImmediate, BasisSchedule, BasisNamespaces, BasisCluster,
		BasisNoHistory, BasisPaused, BasisNoWorker, BasisUnreachable, BasisStorageUnavailable, BasisUnresolvable,
		BasisStartDeadline, BasisNoSlot,
	}
}

// ETA is when a waiting backup is predicted to start.
type ETA struct {
	// StartP50 is the likely start, StartP90 the one that is kept nine times of
	// ten; nil where it cannot be told. StartP90 alone is nil where the start
	// deadline may come first.
	StartP50, StartP90 *time.Time
	// Basis is the weakest that the start rests on, its own or of one ahead.
	Basis Basis
	// Samples is the number of past runs of that.
	Samples int
}

// Estimate is how long a run takes.
type Estimate struct {
	// P50 is the likely time, P90 the one that nine of ten runs keep; P90 ≥ P50.
	P50, P90 time.Duration
	// Basis is BasisSchedule, BasisNamespaces, BasisCluster or BasisNoHistory.
	Basis Basis
	// Samples is the number of past runs that it rests on.
	Samples int
}

const (
	// maxSamples is how far back the runs of a key count.
	maxSamples = 20
	// enoughSamples of a key's own tell its spread; with fewer the cluster's counts too.
	enoughSamples = 10
	// unknownSpread is P90 to P50 where nothing tells it.
	unknownSpread = 2.0
	// longestRun is the longest that is predicted, so that sums stay dates.
	longestRun = 90 * 24 * time.Hour
)

// Estimate predicts a run of that key from the last runs of the same schedule,
// else of the same namespaces, else of all the cluster.
//
// P50 is the mean of the last two runs, which beats what users estimate and
// longer means (Tsafrir, Etsion, Feitelson: Backfilling Using System-Generated
// Predictions Rather than User Runtime Estimates, 2007); of the whole cluster it
// is the median. P90 is as far from it as nine of ten runs were from the same
// prediction of them.
func (h History) Estimate(key RunKey) Estimate { return h.index().estimate(key) }

// estimator holds a history by key.
type estimator struct {
	schedules, namespaces map[string][]time.Duration
	all                   []time.Duration
	// misses are, over all keys, how many times as long as predicted runs took.
	misses []float64
	// told are the estimates given before.
	told map[RunKey]Estimate
}

func (h History) index() *estimator {
	e := &estimator{schedules: map[string][]time.Duration{}, namespaces: map[string][]time.Duration{}, told: map[RunKey]Estimate{}}
	for _, past := range h {
		e.all = append(e.all, past.Took)
		if past.Schedule != "" {
			e.schedules[past.Schedule] = append(e.schedules[past.Schedule], past.Took)
		}
		e.namespaces[past.Namespaces] = append(e.namespaces[past.Namespaces], past.Took)
	}
	for _, took := range e.namespaces {
		e.misses = append(e.misses, missesOf(took)...)
	}
	slices.Sort(e.misses)
	return e
}

func (e *estimator) estimate(key RunKey) Estimate {
	if told, ok := e.told[key]; ok {
		return told
	}
	told := e.estimateAnew(key)
	e.told[key] = told
	return told
}

func (e *estimator) estimateAnew(key RunKey) Estimate {
	if took := e.schedules[key.Schedule]; len(took) > 0 {
		return e.ofAlike(took, BasisSchedule)
	}
	if took := e.namespaces[key.Namespaces]; len(took) > 0 {
		return e.ofAlike(took, BasisNamespaces)
	}
	if len(e.all) > 0 {
		return e.ofCluster()
	}
	return Estimate{Basis: BasisNoHistory}
}

// ofAlike predicts from alike runs, newest first, at least one.
func (e *estimator) ofAlike(took []time.Duration, basis Basis) Estimate {
	took = took[:min(len(took), maxSamples)]
	return estimateOf(lastTwo(took), e.spread(missesOf(took)), basis, len(took))
}

// spread is P90 to P50 of a key whose predictions missed so: its own, and the
// fewer there are, the more the cluster's.
func (e *estimator) spread(misses []float64) float64 {
	if len(e.misses) == 0 {
		return unknownSpread
	}
	slices.Sort(misses)
	weight := min(1, float64(len(misses))/enoughSamples)
	return math.Pow(quantile(misses, 0.9), weight) * math.Pow(quantile(e.misses, 0.9), 1-weight)
}

// ofCluster predicts from all runs, at least one.
func (e *estimator) ofCluster() Estimate {
	sorted := slices.Sorted(slices.Values(e.all))
	p50 := sorted[len(sorted)/2]
	spread := float64(quantile(sorted, 0.9)) / float64(max(p50, 1))
	if len(sorted) < enoughSamples {
		spread = max(spread, unknownSpread)
	}
	return estimateOf(p50, spread, BasisCluster, len(sorted))
}

func estimateOf(p50 time.Duration, spread float64, basis Basis, samples int) Estimate {
	p50 = min(p50, longestRun)
	p90 := min(float64(p50)*max(1, spread), float64(longestRun))
	return Estimate{P50: p50, P90: time.Duration(p90), Basis: basis, Samples: samples}
}

// missesOf tells of each run how many times as long it took as the two before it
// predicted.
func missesOf(took []time.Duration) []float64 {
	var misses []float64
	for i := range len(took) - 1 {
		if predicted := lastTwo(took[i+1:]); predicted > 0 {
			misses = append(misses, float64(took[i])/float64(predicted))
		}
	}
	return misses
}

// lastTwo is the mean of the newest two, or the only one.
func lastTwo(took []time.Duration) time.Duration {
	if len(took) == 1 {
		return took[0]
	}
	return (took[0] + took[1]) / 2
}

// quantile of sorted values, the greater neighbour where it falls between two:
// a few values tell too little about the rare ones. Zero of none.
func quantile[T time.Duration | float64](sorted []T, q float64) T {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted)+1)))
	return sorted[min(rank, len(sorted))-1]
}

const (
	// z90 is how many standard deviations nine of ten stay below.
	z90 = 1.2815515655446004
	// narrowest is the least spread that a run that goes on is taken to have, as
	// the standard deviation of its logarithm.
	narrowest = 0.1
	// farTail is where the logarithms' distribution is too thin to be computed.
	farTail = 5
)

// HavingRun is the estimate for a run that has gone on for so long: what is left
// of the distribution of runs, taken as log-normal. P50 and P90 are more than
// elapsed, and no less than before: who has exceeded a prediction is corrected
// upward.
func (e Estimate) HavingRun(elapsed time.Duration) Estimate {
	if elapsed <= 0 || e.Basis == BasisNoHistory {
		return e
	}
	p50 := float64(max(e.P50, time.Millisecond))
	sigma := max(narrowest, math.Log(float64(e.P90)/p50)/z90)
	z := math.Log(float64(elapsed)/p50) / sigma
	at := func(share float64) time.Duration {
		took := p50 * math.Exp(sigma*math.Sqrt2*math.Erfcinv(math.Erfc(z/math.Sqrt2)*(1-share)))
		if z > farTail {
			took = float64(elapsed) * math.Exp(sigma*-math.Log(1-share)/z)
		}
		return time.Duration(min(took, max(float64(longestRun), 2*float64(elapsed)))) + 1
	}
	e.P50 = max(e.P50, at(0.5))
	e.P90 = max(e.P90, e.P50, at(0.9))
	return e
}

// ground is what a prediction rests on. The zero value rests on nothing that
// takes time.
type ground struct {
	weakness int // index in Bases
	samples  int
}

func (e Estimate) ground() ground {
	return ground{weakness: slices.Index(Bases(), e.Basis), samples: e.Samples}
}

// noHistory is what a start rests on of which nobody can tell.
var noHistory = ground{weakness: slices.Index(Bases(), BasisNoHistory)}

// weaker is the one of two that is less sure: of a weaker basis, or of fewer samples.
func weaker(a, b ground) ground {
	if a.weakness > b.weakness || a.weakness == b.weakness && a.samples <= b.samples {
		return a
	}
	return b
}

// ETAs predicts when the waiting backups of these ids start, or all of them
// where none is named, if nothing else is submitted or changed. What does not
// wait has none.
//
// The plan is simulated with likely run times. The margin from P50 to P90 of a
// start is that of the runs on the way to it: along a chain squares add up, where
// several have to end the latest counts. (A second simulation with every run at
// its P90 is kept nearly always and tells little: not all runs are long at once.)
func (s Snapshot) ETAs(h History, ids ...uuid.UUID) map[uuid.UUID]ETA {
	known := h.index()
	sim := s.simulate(func(b Standing) run { return s.runOf(b, known) })
	asked := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		asked[id] = true
	}
	etas := make(map[uuid.UUID]ETA, len(sim.backups))
	none := sim.unpredicted()
	for place, b := range sim.backups {
		switch {
		case b.Phase.Running() || len(ids) > 0 && !asked[b.ID]:
		case b.starts == nil:
			etas[b.ID] = ETA{Basis: none[place]}
		case b.rests == noHistory:
			etas[b.ID] = ETA{Basis: BasisNoHistory}
		default:
			etas[b.ID] = b.eta()
		}
	}
	return etas
}

// runOf is how long a backup runs from its admission.
func (s Snapshot) runOf(b Standing, known *estimator) run {
	e := known.estimate(b.RunKey)
	if e.Basis == BasisNoHistory {
		return run{takes: Never}
	}
	if b.Phase.Running() && b.StartedAt != nil {
		e = e.HavingRun(s.At.Sub(*b.StartedAt))
	}
	return run{takes: e.P50, margin: e.P90 - e.P50, rests: e.ground()}
}

// eta of one that starts.
func (b *actor) eta() ETA {
	eta := ETA{StartP50: b.starts, Basis: Bases()[b.rests.weakness], Samples: b.rests.samples}
	late := b.starts.Add(b.margin)
	if b.StartDeadline == nil || b.Admitted || late.Before(*b.StartDeadline) {
		eta.StartP90 = &late
	}
	return eta
}

// unpredicted tells, by place, why those that did not start did not.
func (sim *simulation) unpredicted() map[int]Basis {
	why := map[int]Basis{}
	ahead := newPredecessors()
	var reasons []Basis
	add := func(b *actor, reason Basis) {
		ahead.add(b.claim)
		reasons = append(reasons, reason)
	}
	for _, b := range sim.backups {
		if b.state == stateRunning {
			add(b, BasisNoHistory)
		}
	}
	for place, b := range sim.backups {
		switch b.state {
		case stateExpired:
			why[place] = BasisStartDeadline
			if b.rests == noHistory {
				why[place] = BasisNoHistory
			}
		case stateQueued:
			why[place] = sim.unpredictedQueued(b)
			if last := ahead.last(b.claim); why[place] == "" && last >= 0 {
				why[place] = reasons[last]
			} else if why[place] == "" {
				why[place] = sim.unpredictedSlot()
			}
			add(b, why[place])
		}
	}
	return why
}

// unpredictedQueued is the setting that keeps a queued one for good; empty if none does.
func (sim *simulation) unpredictedQueued(b *actor) Basis {
	if sim.Paused.InForce(sim.at) && sim.Paused.Until == nil {
		return BasisPaused
	}
	for _, setting := range b.settings {
		if basis, keeps := keepingBases[setting.Reason]; keeps {
			return basis
		}
	}
	return ""
}

// keepingBases are the settings whose end is not known.
var keepingBases = map[WaitReason]Basis{
	WaitNoWorker:           BasisNoWorker,
	WaitClusterUnreachable: BasisUnreachable,
	WaitStorageUnavailable: BasisStorageUnavailable,
	WaitScopeUnresolvable:  BasisUnresolvable,
}

// unpredictedSlot is why one that nobody overlaps gets no place.
func (sim *simulation) unpredictedSlot() Basis {
	if sim.running > 0 {
		return BasisNoHistory
	}
	return BasisNoSlot
}
