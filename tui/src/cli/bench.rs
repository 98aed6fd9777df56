//! `recirc bench`: packets a second and cycles a packet.

use std::time::{Duration, Instant};

use datapath::bench::{Bench, CASES, Case};

use super::args::BenchArgs;
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Wall-clock time that one round takes, about.
const ROUND: Duration = Duration::from_millis(200);
/// Batches of the first, unmeasured run, from which the length of a round is estimated.
const PROBE: u64 = 2_000;

/// What one case came to: medians over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    mpps: f64,
    /// Cycles of the time stamp counter; none where there is no such counter.
    cycles: Option<f64>,
    ns: f64,
}

/// Runs the command.
pub fn run(args: &BenchArgs, out: &mut Output) -> Result<Exit, Failure> {
    let chosen = choose(args.case.as_deref())?;
    let width = chosen.iter().map(|case| case.name.len()).max().unwrap_or(0).max(4);
    if args.list {
        for case in chosen {
            out.line(&format!("{:width$}  {}", case.name, case.about))?;
        }
        return Ok(Exit::Pass);
    }
    out.line(&format!("{:width$}  {:>8}  {:>13}  {:>9}", "case", "Mpps", "cycles/packet", "ns/packet"))?;
    for case in chosen {
        let Some(figures) = measure(case, args.rounds) else { return Ok(Exit::Interrupted) };
        let cycles = figures.cycles.map_or_else(|| "-".to_owned(), |cycles| format!("{cycles:.1}"));
        let (name, mpps, ns) = (case.name, figures.mpps, figures.ns);
        out.line(&format!("{name:width$}  {mpps:>8.2}  {cycles:>13}  {ns:>9.2}"))?;
        out.show()?;
        if out.is_closed() {
            break;
        }
    }
    Ok(Exit::Pass)
}

/// The case of that name; or else all whose name has it in it.
fn choose(name: Option<&str>) -> Result<Vec<&'static Case>, Failure> {
    let Some(name) = name else { return Ok(CASES.iter().collect()) };
    let exact: Vec<&Case> = CASES.iter().filter(|case| case.name == name).collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    let found: Vec<&Case> = CASES.iter().filter(|case| case.name.contains(name)).collect();
    if found.is_empty() {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        let message = format!("no case {name:?}");
        return Err(Complaint::new(message).help(format!("there is: {}", names.join(", "))).into());
    }
    Ok(found)
}

/// Measures one case; none if the user ended it.
fn measure(case: &Case, rounds: u32) -> Option<Figures> {
    let progress = Progress::new(case.name, Some(u64::from(rounds)));
    let mut bench = case.build();
    let batches = batches_a_round(&mut bench);
    let mut results = Vec::new();
    for round in 0..rounds {
        if interrupt::requested() {
            return None;
        }
        let (start, first) = (Instant::now(), cycles_now());
        let packets = bench.run(batches) as f64;
        let (took, last) = (start.elapsed().as_nanos() as f64, cycles_now());
        let cycles = first.zip(last).map(|(first, last)| last.wrapping_sub(first) as f64 / packets);
        results.push((took / packets, cycles));
        progress.set(u64::from(round) + 1);
    }
    let ns = median(results.iter().map(|(ns, _)| *ns).collect());
    let cycles: Option<Vec<f64>> = results.iter().map(|(_, cycles)| *cycles).collect();
    Some(Figures { mpps: 1e3 / ns, cycles: cycles.map(median), ns })
}

fn batches_a_round(bench: &mut Bench) -> u64 {
    let start = Instant::now();
    bench.run(PROBE);
    let each = start.elapsed().as_secs_f64() / PROBE as f64;
    ((ROUND.as_secs_f64() / each.max(1e-9)) as u64).max(PROBE)
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

/// The processor's time stamp counter.
#[cfg(target_arch = "x86_64")]
fn cycles_now() -> Option<u64> {
    // SAFETY: every x86_64 processor has the instruction, and it touches no memory.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// No counter that can be read without privileges.
#[cfg(not(target_arch = "x86_64"))]
fn cycles_now() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn cases_are_chosen_by_name_or_part_of_it() {
        assert_eq!(choose(None).unwrap().len(), CASES.len());
        assert_eq!(choose(Some("emc")).unwrap().len(), 1, "the exact name");
        assert!(choose(Some("subtables")).unwrap().len() > 1);
        assert!(choose(Some("nonsense")).is_err());
    }
}
