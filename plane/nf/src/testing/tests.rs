use super::*;
use crate::{Burst, Port, Timer};

/// Tells what happens to it.
struct Diary {
    beat: Timer,
}

impl NetworkFunction for Diary {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        let ports: Vec<_> = burst.packets().map(|packet| packet.ingress().number()).collect();
        context.tell(format!("{:?} {ports:?}", context.now())).unwrap();
    }

    fn timer(&mut self, timer: Timer, context: &mut Context) {
        let what = if timer == self.beat { "beat" } else { "once" };
        context.tell(format!("{:?} {what}", context.now())).unwrap();
    }
}

#[test]
fn time_is_that_of_the_packets_and_timers_fire_between() {
    let mut harness = Harness::new(Setup::default(), |context| {
        context.after(Duration::from_millis(25));
        Ok(Diary { beat: context.every(Duration::from_millis(10)) })
    })
    .unwrap()
    .with_bursts_of(2);
    let arrival = |ms, ingress| Arrival { at: Duration::from_millis(ms), ingress, frame: vec![0; 60] };
    harness.run_arrivals(&[arrival(1, 0), arrival(2, 1), arrival(21, 1)]);
    harness.wait(Duration::from_millis(5));
    assert_eq!(harness.told(), ["1ms [0, 1]", "10ms beat", "20ms beat", "21ms [1]", "25ms once"]);
}

#[test]
fn a_check_takes_any_port_and_an_nf_at_work_only_those_there_are() {
    let build = |context: &mut Context| -> Result<Diary, NfError> {
        assert_ne!(context.port("north")?, context.port("south")?);
        Ok(Diary { beat: context.every(Duration::from_secs(1)) })
    };
    check("", build).unwrap();
    let refused = Harness::new(Setup::default(), build).err().unwrap();
    assert_eq!(refused.to_string(), "there is no port `north`; there are west, east");
}

#[test]
fn ports_have_names() {
    Harness::new(Setup::default(), |context| {
        assert_eq!(context.port("east").unwrap(), Port(1));
        assert_eq!(context.port_name(Port(1)).as_deref(), Some("east"));
        assert_eq!(context.port_name(Port(2)), None);
        Ok(Diary { beat: context.every(Duration::from_secs(1)) })
    })
    .unwrap();
}
