//! Messages to controllers.

use super::ctx::Ctx;
use crate::action::{Action, Userspace, UserspaceCookie};
use crate::openflow::action::Controller;
use crate::openflow::bridge::rule::reason as why;

impl Ctx<'_, '_> {
    /// The `controller` action.
    pub(super) fn controller(&mut self, controller: &Controller) {
        if controller.pause {
            // Refused when rules are added: no controller could resume.
            return;
        }
        self.send_to_controller(controller.max_len, controller.reason, controller.id, &controller.userdata);
    }

    /// Sends the packet as it is to a controller, through the slow path.
    pub(super) fn send_to_controller(&mut self, max_len: u16, reason: u16, controller: u16, userdata: &[u8]) {
        self.commit();
        let in_miss_rule = self.rule.is_some_and(|rule| rule.is_table_miss());
        let reason = if reason == why::ACTION && in_miss_rule { why::EXPLICIT_MISS } else { reason };
        let mut state = self.frozen_state(self.table);
        state.userdata = userdata.to_vec();
        let Some(id) = self.acquire_id(state) else { return };
        let cookie = UserspaceCookie::Controller {
            reason,
            dont_send: self.dont_send,
            continuation: false,
            recirc_id: id.0,
            rule_cookie: self.rule_cookie,
            controller_id: controller,
            max_len,
        };
        self.actions.push(Action::Userspace(Box::new(Userspace {
            pid: 0,
            cookie,
            actions: false,
            tunnel_out_port: None,
        })));
    }
}
