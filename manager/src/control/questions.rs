//! Messages of operators to NFs (`headgate tell`) that wait for answers.
//!
//! A message goes to all instances of an NF at once, and the operator gets one answer when each of them has
//! answered, has ended, or has had its time. An NF is untrusted: an answer that nobody waits for is ignored.

use std::sync::mpsc::Sender;

use headgate_api::told::{NfAnswer, Outcome, Told};
use headgate_decide::units::{Instant as Moment, Span};

use crate::api::{Answer, answer};

/// Longest wait for an NF's answer. Our choice: many times what one takes that shares its core with others,
/// and less than a client waits for us.
const PATIENCE: Span = Span::from_secs(5);

/// Message that waits for answers.
struct Question {
    number: u64,
    due: Moment,
    /// Instances in their order, by number and name, with the outcome once it is known.
    asked: Vec<(usize, String, Option<Outcome>)>,
    reply: Sender<Answer>,
}

impl Question {
    fn is_answered(&self) -> bool {
        self.asked.iter().all(|(_, _, outcome)| outcome.is_some())
    }

    fn settle(&mut self, at: usize, outcome: Outcome) {
        if let Some((_, _, slot)) = self.asked.iter_mut().find(|(asked, _, _)| *asked == at) {
            slot.get_or_insert(outcome);
        }
    }

    fn reply(self) {
        let told = self.asked.len() as u64;
        let answers = self.asked.into_iter().map(|(_, instance, outcome)| {
            let outcome = outcome.unwrap_or_else(|| {
                let seconds = PATIENCE.as_millis() / 1000;
                Outcome::Silent(format!(
                    "gave no answer within {seconds} s: it is busy, or blocked; whether it did what it was told is not \
                     known"
                ))
            });
            NfAnswer { instance, outcome }
        });
        let told = Told { told, answers: answers.collect() };
        // The client may have closed its connection.
        let _ = self.reply.send(answer(&told));
    }
}

/// All messages that wait.
#[derive(Default)]
pub struct Questions {
    waiting: Vec<Question>,
    last: u64,
}

impl Questions {
    /// Returns the number of the next message.
    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Adds the message of that number, which went to these instances. One that no answer can come to has its
    /// outcome already.
    pub fn ask(&mut self, now: Moment, asked: Vec<(usize, String, Option<Outcome>)>, reply: Sender<Answer>) {
        self.waiting.push(Question { number: self.last, due: now + PATIENCE, asked, reply });
        self.poll(now);
    }

    /// Takes in the answer of an instance.
    pub fn on_answer(&mut self, at: usize, number: u64, outcome: Outcome) {
        if let Some(question) = self.waiting.iter_mut().find(|question| question.number == number) {
            question.settle(at, outcome);
        }
    }

    /// Takes in that the process of an instance has ended.
    pub fn on_end(&mut self, at: usize) {
        for question in &mut self.waiting {
            question
                .settle(at, Outcome::Silent("ended before it answered; see `headgate status`".to_owned()));
        }
    }

    /// Replies to those whose answers are complete, or have had their time.
    pub fn poll(&mut self, now: Moment) {
        let is_over = |question: &mut Question| question.is_answered() || question.due.is_due(now);
        self.waiting.extract_if(.., is_over).for_each(Question::reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn asked(questions: &mut Questions, instances: &[usize]) -> (u64, Receiver<Answer>) {
        let (reply, answer) = channel();
        let number = questions.next_number();
        let names = instances.iter().map(|&at| (at, format!("nf.{at}"), None)).collect();
        questions.ask(Moment(0), names, reply);
        (number, answer)
    }

    fn outcomes(answer: &Receiver<Answer>) -> Vec<Outcome> {
        let told: Told = serde_json::from_str(answer.try_recv().unwrap().unwrap().get()).unwrap();
        told.answers.into_iter().map(|answer| answer.outcome).collect()
    }

    fn yes(word: &str) -> Outcome {
        Outcome::Answered(word.to_owned())
    }

    #[test]
    fn a_reply_waits_for_every_instance_and_keeps_their_order() {
        let mut questions = Questions::default();
        let (number, answer) = asked(&mut questions, &[3, 5]);
        questions.on_answer(5, number, yes("five"));
        questions.poll(Moment(1));
        assert!(answer.try_recv().is_err(), "one is missing");
        questions.on_answer(3, number, yes("three"));
        questions.poll(Moment(2));
        assert_eq!(outcomes(&answer), [yes("three"), yes("five")]);
    }

    #[test]
    fn silence_and_ends_are_told_and_late_words_ignored() {
        let mut questions = Questions::default();
        let (number, answer) = asked(&mut questions, &[1, 2]);
        questions.on_end(2);
        questions.poll(Moment(0) + PATIENCE);
        let told = outcomes(&answer);
        assert!(matches!(&told[0], Outcome::Silent(why) if why.contains("within 5 s")), "{told:?}");
        assert!(matches!(&told[1], Outcome::Silent(why) if why.contains("ended")), "{told:?}");
        // Nobody waits for these: too late, another's number, and one that was not asked.
        questions.on_answer(1, number, yes("late"));
        let (next, answer) = asked(&mut questions, &[1]);
        questions.on_answer(1, number, yes("to another"));
        questions.on_answer(7, next, yes("not asked"));
        questions.poll(Moment(1));
        assert!(answer.try_recv().is_err());
        questions.on_answer(1, next, yes("first"));
        questions.on_answer(1, next, yes("twice"));
        questions.poll(Moment(2));
        assert_eq!(outcomes(&answer), [yes("first")]);
    }

    #[test]
    fn what_is_settled_at_once_is_replied_at_once() {
        let mut questions = Questions::default();
        let (reply, answer) = channel();
        questions.next_number();
        questions.ask(Moment(0), vec![(0, "old".to_owned(), Some(Outcome::Unknown))], reply);
        assert_eq!(outcomes(&answer), [Outcome::Unknown]);
    }
}
